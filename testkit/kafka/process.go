package kafka

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// stopTimeout is how long a real broker may take to end in order before it is killed.
const stopTimeout = 30 * time.Second

// bindTries is how often a broker is started on other ports when one that was free is taken.
const bindTries = 3

// process is the engine of a real broker: a JVM that runs Kafka as broker and controller.
type process struct {
	opts  Options
	certs *certificates
	temp  bool
	// locked is Dir's lock. The JVM has it too: who comes after a process that was killed waits
	// until the JVM is gone as well.
	locked *os.File

	ports [3]int // clients, the broker itself, the controller; kept over restarts
	run   *run
}

// run is one life of the JVM.
type run struct {
	cmd  *exec.Cmd
	dog  *watchdog
	done chan struct{} // closed when the process is gone and waited for
	err  error         // of Wait, after done
}

func (p *process) addr() string { return fmt.Sprintf("127.0.0.1:%d", p.ports[0]) }

// start starts the JVM and returns when it has bound its ports or has ended.
func (p *process) start(ctx context.Context) error {
	for try := 1; ; try++ {
		err := p.launch(ctx)
		// A port that was free a moment ago may be taken when Kafka gets to it.
		if err == nil || try == bindTries || !strings.Contains(tail(p.logPath()), "Address already in use") {
			return err
		}
		p.ports = [3]int{}
	}
}

func (p *process) launch(ctx context.Context) error {
	javaPath, err := java(ctx)
	if err != nil {
		return err
	}
	lib, err := jars(ctx)
	if err != nil {
		return err
	}
	if err := p.choosePorts(); err != nil {
		return err
	}
	props, err := p.writeProperties()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(p.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	args := append([]string{
		fmt.Sprintf("-Xmx%d", p.opts.HeapBytes),
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		// It complains 20 times a second about a broker that is starting: the one that complains.
		"-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients.NetworkClient=error",
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"-cp", filepath.Join(lib, "*"),
	}, p.opts.JVM...)
	command := func(ctx context.Context, args []string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, javaPath, args...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = p.opts.Dir, log, log
		detach(cmd)
		return cmd
	}
	if _, err := os.Stat(filepath.Join(p.opts.Dir, "data", "meta.properties")); err != nil {
		if err := command(ctx, p.formatArgs(args, props)).Run(); err != nil {
			return fmt.Errorf("kafka.tools.StorageTool: %w: %s", errors.Join(err, ctx.Err()), lastLines(tail(p.logPath()), 20))
		}
	}

	// ctx bounds the start, not the broker's life.
	r := &run{done: make(chan struct{}), cmd: command(context.WithoutCancel(ctx), append(slices.Clone(args), "kafka.Kafka", props))}
	inherit(r.cmd, p.locked)
	if err := r.cmd.Start(); err != nil {
		return err
	}
	temp := ""
	if p.temp {
		temp = p.opts.Dir
	}
	if r.dog, err = watch(r.cmd.Process, temp); err != nil {
		return errors.Join(err, killGroup(r.cmd.Process), r.cmd.Wait())
	}
	go func() {
		r.err = r.cmd.Wait()
		r.dog.stop()
		close(r.done)
	}()
	p.run = r
	return p.awaitPort(ctx)
}

// awaitPort returns when the broker listens, or has ended.
func (p *process) awaitPort(ctx context.Context) error {
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "tcp", p.addr())
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.run.done:
			return fmt.Errorf("it ended before it listened on %s (%v); its log ends:\n%s", p.addr(), p.run.err, lastLines(tail(p.logPath()), 30))
		case <-ctx.Done():
			err := fmt.Errorf("it does not listen on %s yet: %w; its log ends:\n%s", p.addr(), ctx.Err(), lastLines(tail(p.logPath()), 30))
			return errors.Join(err, p.kill())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (p *process) stop() error {
	if p.run == nil {
		return nil
	}
	select {
	case <-p.run.done:
	default:
		if err := terminate(p.run.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		select {
		case <-p.run.done:
		case <-time.After(stopTimeout):
			return p.kill()
		}
	}
	p.run = nil
	return nil
}

func (p *process) kill() error {
	if p.run == nil {
		return nil
	}
	select {
	case <-p.run.done:
	default:
		if err := killGroup(p.run.cmd.Process); err != nil {
			return err
		}
		<-p.run.done
	}
	p.run = nil
	return nil
}

func (p *process) logPath() string { return filepath.Join(p.opts.Dir, logName) }

// choosePorts finds ports that are free now, unless it has some already.
func (p *process) choosePorts() error {
	if p.ports[0] != 0 {
		return nil
	}
	p.ports[0] = p.opts.Port
	for i := range p.ports {
		if p.ports[i] != 0 {
			continue
		}
		// All are held until the last is chosen, so that they differ.
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close()
		p.ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return nil
}

// formatArgs are those that make the directory one of Kafka, with the users that it has from
// the start.
func (p *process) formatArgs(jvm []string, props string) []string {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	id[0] &= 0x7f        // no '-' in front, which would be taken for an option
	args := append(slices.Clone(jvm), "kafka.tools.StorageTool", "format", "-t", base64.RawURLEncoding.EncodeToString(id), "-c", props)
	for _, u := range p.opts.Users {
		for _, mechanism := range []string{ScramSHA256, ScramSHA512} {
			args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, u.Name, u.Password))
		}
	}
	return args
}

// writeProperties writes server.properties and what it refers to, and returns its path.
func (p *process) writeProperties() (string, error) {
	protocol := map[[2]bool]string{
		{false, false}: "PLAINTEXT", {true, false}: "SSL", {false, true}: "SASL_PLAINTEXT", {true, true}: "SASL_SSL",
	}[[2]bool{p.certs != nil, len(p.opts.Users) > 0}]
	props := map[string]string{
		"process.roles":            "broker,controller",
		"node.id":                  "1",
		"controller.quorum.voters": fmt.Sprintf("1@127.0.0.1:%d", p.ports[2]),
		"listeners": fmt.Sprintf("CLIENT://127.0.0.1:%d,INTERNAL://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d",
			p.ports[0], p.ports[1], p.ports[2]),
		"advertised.listeners":           fmt.Sprintf("CLIENT://127.0.0.1:%d,INTERNAL://127.0.0.1:%d", p.ports[0], p.ports[1]),
		"controller.listener.names":      "CONTROLLER",
		"inter.broker.listener.name":     "INTERNAL",
		"listener.security.protocol.map": "CLIENT:" + protocol + ",INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"log.dirs":                       filepath.Join(p.opts.Dir, "data"),

		"num.partitions":                                   strconv.Itoa(p.opts.Partitions),
		"auto.create.topics.enable":                        "false",
		"offsets.topic.num.partitions":                     strconv.Itoa(coordinatorPartitions),
		"offsets.topic.replication.factor":                 "1",
		"transaction.state.log.num.partitions":             strconv.Itoa(coordinatorPartitions),
		"transaction.state.log.replication.factor":         "1",
		"transaction.state.log.min.isr":                    "1",
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",
		"group.initial.rebalance.delay.ms":                 "0",
		"group.min.session.timeout.ms":                     strconv.FormatInt(minSessionTimeout.Milliseconds(), 10),
	}
	if p.certs != nil {
		path := filepath.Join(p.opts.Dir, "keystore.pem")
		if err := os.WriteFile(path, p.certs.keystore, 0o600); err != nil {
			return "", err
		}
		props["ssl.keystore.type"] = "PEM"
		props["ssl.keystore.location"] = path
	}
	if len(p.opts.Users) > 0 {
		props["sasl.enabled.mechanisms"] = strings.Join([]string{Plain, ScramSHA256, ScramSHA512}, ",")
		var plain strings.Builder
		plain.WriteString("org.apache.kafka.common.security.plain.PlainLoginModule required")
		for _, u := range p.opts.Users {
			fmt.Fprintf(&plain, ` user_%s="%s"`, u.Name, u.Password)
		}
		props["listener.name.client.plain.sasl.jaas.config"] = plain.String() + ";"
		for _, mechanism := range []string{"scram-sha-256", "scram-sha-512"} {
			props["listener.name.client."+mechanism+".sasl.jaas.config"] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
		}
	}
	// After a kill the controller waits this long for the broker that was; Kafka's 9 s are for
	// networks.
	props["broker.session.timeout.ms"] = "3000"
	props["broker.heartbeat.interval.ms"] = "500"
	maps.Copy(props, p.opts.Properties)

	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(props)) {
		fmt.Fprintf(&text, "%s=%s\n", name, strings.ReplaceAll(props[name], `\`, `\\`))
	}
	path := filepath.Join(p.opts.Dir, "server.properties")
	// It holds passwords.
	return path, os.WriteFile(path, []byte(text.String()), 0o600)
}
