package main

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/kvstore/rocksdb"
	"github.com/wickerwork/wicker/testkit/kafka"
)

// changelogs are the changelog topics of a run, as read_committed sees them.
type changelogs map[kafka.Partition][]kafka.Record

// at returns what a partition holds up to an offset: a key's last value. A negative offset is the end.
func (c changelogs) at(p kafka.Partition, offset int64) map[string][]byte {
	values := map[string][]byte{}
	for _, r := range c[p] {
		if offset >= 0 && r.Offset >= offset {
			break
		}
		if r.Value == nil {
			delete(values, string(r.Key))
		} else {
			values[string(r.Key)] = r.Value
		}
	}
	return values
}

// all returns what all partitions of a topic hold at their ends.
func (c changelogs) all(topic string) map[string][]byte {
	values := map[string][]byte{}
	for p := range c {
		if p.Topic == topic {
			for k, v := range c.at(p, -1) {
				values[k] = v
			}
		}
	}
	return values
}

// checkStores opens a state directory that no process uses and compares each store with its changelog up to the
// store's checkpoint, with which it must agree (E4). It notes in whole the partitions of which a
// store holds everything.
func (o *oracle) checkStores(dir string, n names, logs changelogs, whole map[kafka.Partition]bool) error {
	engine := rocksdb.New(rocksdb.Options{Dir: dir, MemoryBytes: 16 << 20})
	if err := engine.Open(); err != nil {
		return err
	}
	defer engine.Close()
	stores, err := engine.Stores()
	if err != nil {
		return err
	}
	for _, name := range stores {
		_, number, _ := strings.Cut(strings.TrimPrefix(name, n.App), "-")
		number = number[strings.LastIndexByte(number, '-')+1:]
		partition, err := strconv.Atoi(number)
		if err != nil {
			return fmt.Errorf("store %s: %w", name, err)
		}
		db, err := engine.OpenStore(name)
		if err != nil {
			return err
		}
		for _, state := range []string{countState, totalState} {
			p := kafka.Partition{Topic: n.changelog(state), Partition: int32(partition)}
			if err := o.checkStore(db, name, state, p, logs, whole); err != nil {
				return err
			}
		}
		if err := db.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (o *oracle) checkStore(db kvstore.Store, name, state string, p kafka.Partition, logs changelogs, whole map[kafka.Partition]bool) error {
	offset, ok, err := db.Checkpoint(p.Topic)
	if err != nil || !ok {
		return err
	}
	want, end := logs.at(p, offset), logs.at(p, -1)
	prefix := append(binary.AppendUvarint(nil, uint64(len(state))), state...)
	have := map[string]string{}
	err = db.Scan(nil, nil, func(key, value []byte) error {
		if k, ok := strings.CutPrefix(string(key), string(prefix)); ok {
			have[k] = string(value)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for k, v := range want {
		if have[k] != string(v) {
			o.find("store %s, checkpoint %d: %s is %q, and %q in %s", name, offset, k, have[k], v, p.Topic)
		}
	}
	for k, v := range have {
		if _, ok := want[k]; !ok {
			o.find("store %s, checkpoint %d: %s is %q, and not in %s", name, offset, k, v, p.Topic)
		}
	}
	last := true
	for k, v := range end {
		last = last && have[k] == string(v)
	}
	if last && len(have) == len(end) {
		whole[p] = true
	}
	return nil
}
