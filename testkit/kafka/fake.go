package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// minSessionTimeout is the least session timeout that brokers allow: tests that wait for a
// member to be given up would not want to wait for Kafka's 6 s.
const minSessionTimeout = 100 * time.Millisecond

// fake is the engine of an embedded broker: kfake, on files.
type fake struct {
	opts  Options
	certs *certificates
	kept  bool // the files are for another broker to find

	port    int // kept over restarts
	cluster *kfake.Cluster
	log     io.Closer
}

func (f *fake) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(f.port)) }

func (f *fake) dataDir() string { return filepath.Join(f.opts.Dir, "data") }

func (f *fake) start(context.Context) error {
	log, err := os.OpenFile(filepath.Join(f.opts.Dir, logName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	if f.port == 0 {
		f.port = f.opts.Port
	}
	opts := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.Ports(f.port),
		kfake.DataDir(f.dataDir()),
		kfake.DefaultNumPartitions(f.opts.Partitions),
		kfake.GroupMinSessionTimeout(minSessionTimeout),
		kfake.WithLogger(kfake.BasicLogger(log, kfake.LogLevelWarn)),
		kfake.BrokerConfigs(f.opts.Properties),
	}
	if f.certs != nil {
		opts = append(opts, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{f.certs.server}}))
	}
	if len(f.opts.Users) > 0 {
		opts = append(opts, kfake.EnableSASL())
	}
	for _, u := range f.opts.Users {
		for _, mechanism := range []string{Plain, ScramSHA256, ScramSHA512} {
			opts = append(opts, kfake.Superuser(mechanism, u.Name, u.Password))
		}
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		return errors.Join(err, log.Close())
	}
	_, port, err := net.SplitHostPort(cluster.ListenAddrs()[0])
	if err == nil {
		f.port, err = strconv.Atoi(port)
	}
	if f.kept {
		keepLast(cluster)
	}
	f.cluster, f.log = cluster, log
	if err != nil {
		return errors.Join(err, f.stop())
	}
	return nil
}

// keepLast has DeleteRecords leave the last record before its offset: kfake finds a partition again that is empty as
// one that begins at 0, and groups that had come further would seem to have lost what they read.
func keepLast(cluster *kfake.Cluster) {
	cluster.ControlKey(int16(kmsg.DeleteRecords), func(req kmsg.Request) (kmsg.Response, error, bool) {
		for _, topic := range req.(*kmsg.DeleteRecordsRequest).Topics {
			for i := range topic.Partitions {
				topic.Partitions[i].Offset = max(0, topic.Partitions[i].Offset-1)
			}
		}
		return nil, nil, false
	})
}

func (f *fake) stop() error {
	if f.cluster == nil {
		return nil
	}
	f.cluster.Close()
	f.cluster = nil
	return f.log.Close()
}

// kill leaves the files as they are at some moment before the fake stops: kfake writes as it
// goes, as Kafka does, and more when it is closed.
func (f *fake) kill() error {
	if f.cluster == nil {
		return nil
	}
	kept := filepath.Join(f.opts.Dir, "killed")
	err := os.RemoveAll(kept)
	if err == nil {
		err = os.CopyFS(kept, os.DirFS(f.dataDir()))
	}
	err = errors.Join(err, f.stop())
	if err == nil {
		err = os.RemoveAll(f.dataDir())
	}
	if err == nil {
		err = os.Rename(kept, f.dataDir())
	}
	return err
}
