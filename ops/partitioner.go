package ops

import (
	"fmt"
	"hash/crc32"
)

// Partitioner says in which partition of a topic a record with a key belongs: a rule that whoever writes the topic keeps
// to. Records of equal keys then lie in one partition, which is what state by key rests on. The zero value is
// Murmur2. A Partitioner is immutable and safe for concurrent use.
type Partitioner struct {
	name string
	f    func(key []byte, partitions int32) int32
}

// Partitioners of Kafka's clients. Each is for records with a key; where those without go is nobody's promise.
var (
	// Murmur2 is that of Java's clients, Kafka Streams and Kafka Connect, and of this library's sinks (murmur2 of the key's
	// bytes without the sign, modulo the partitions); librdkafka calls it murmur2 and murmur2_random. It is the default.
	Murmur2 = Partitioner{"Murmur2", murmur2Partition}
	// CRC32 is librdkafka's default, consistent_random, and its consistent, with which clients for Python, Go (confluent),
	// .NET, PHP and Ruby write: CRC-32 (IEEE) modulo the partitions. The first puts empty keys anywhere, so that no state
	// may be fed by them.
	CRC32 = Partitioner{"CRC32", crc32Partition}
	// FNV1a is that of sarama (NewHashPartitioner) and of kafka-go's Hash: FNV-1a of 32 bits as a signed number,
	// the absolute value of its remainder.
	FNV1a = Partitioner{"FNV1a", fnv1aPartition}
	// FNV1aReference is that of sarama's NewReferenceHashPartitioner and of kafka-go's ReferenceHash: FNV-1a of
	// 32 bits without the sign.
	FNV1aReference = Partitioner{"FNV1aReference", fnv1aReferencePartition}
	// RoundRobin stands for any rule that does not go by the key: no state may be fed by such a topic before Repartition.
	RoundRobin = Partitioner{"RoundRobin", nil}
)

// NewPartitioner returns a rule of one's own. f gets a key, not null but perhaps empty, and the number of partitions,
// at least 1; it returns a partition from 0, or -1 for a key that may lie anywhere. It must be a pure function, be safe for
// concurrent use, and must neither keep nor change the key. Rules with equal names are taken for the same.
func NewPartitioner(name string, f func(key []byte, partitions int32) int32) Partitioner {
	return Partitioner{name, f}
}

// KnownPartitioners returns those of Kafka's clients that go by the key.
func KnownPartitioners() []Partitioner { return []Partitioner{Murmur2, CRC32, FNV1a, FNV1aReference} }

// String returns the rule's name.
func (p Partitioner) String() string {
	if p.name == "" {
		return Murmur2.name
	}
	return p.name
}

// Keyed says whether the rule goes by the key: RoundRobin does not.
func (p Partitioner) Keyed() bool { return p.f != nil || p.name == "" }

// Partition returns the partition of a key, -1 if it may lie anywhere.
func (p Partitioner) Partition(key []byte, partitions int32) int32 {
	switch {
	case p.f != nil:
		return p.f(key, partitions)
	case p.name == "":
		return murmur2Partition(key, partitions)
	}
	return -1
}

// check returns what is wrong with the rule.
func (p Partitioner) check() error {
	if p.f != nil && p.name == "" {
		return fmt.Errorf("the partitioner's name is empty")
	}
	if p.f == nil && p.name != "" && p.name != RoundRobin.name {
		return fmt.Errorf("the function of partitioner %s is nil", p.name)
	}
	return nil
}

func crc32Partition(key []byte, partitions int32) int32 {
	if len(key) == 0 {
		return -1
	}
	return int32(crc32.ChecksumIEEE(key) % uint32(partitions))
}

func fnv1aPartition(key []byte, partitions int32) int32 {
	p := int32(fnv1a(key)) % partitions
	return max(p, -p)
}

func fnv1aReferencePartition(key []byte, partitions int32) int32 {
	return int32(fnv1a(key)&0x7fffffff) % partitions
}

func fnv1a(key []byte) uint32 {
	h := uint32(2166136261)
	for _, c := range key {
		h = (h ^ uint32(c)) * 16777619
	}
	return h
}

func murmur2Partition(key []byte, partitions int32) int32 {
	return int32(murmur2(key)&0x7fffffff) % partitions
}

// murmur2 is the hash of org.apache.kafka.common.utils.Utils.murmur2.
func murmur2(data []byte) uint32 {
	const (
		seed uint32 = 0x9747b28c
		m    uint32 = 0x5bd1e995
		r           = 24
	)
	h := seed ^ uint32(len(data))
	for len(data) >= 4 {
		k := uint32(data[0]) | uint32(data[1])<<8 | uint32(data[2])<<16 | uint32(data[3])<<24
		data = data[4:]
		k *= m
		k ^= k >> r
		k *= m
		h *= m
		h ^= k
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(data[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return h
}
