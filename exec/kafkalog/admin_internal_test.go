package kafkalog

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// requestBody is a flexible request behind its header.
func requestBody(t *testing.T, b []byte) []byte {
	require.Equal(t, len(b)-4, int(binary.BigEndian.Uint32(b)))
	return b[4+8+2+len("me")+1:]
}

// answerHeader is that of a flexible answer, without tagged fields.
func answerHeader() []byte { return []byte{0} }

// cutShort requires that an answer that ends anywhere before its end is an error.
func cutShort(t *testing.T, whole []byte, read func(b []byte) error) {
	t.Helper()
	require.NoError(t, read(whole))
	for n := range whole {
		require.ErrorIs(t, read(whole[:n]), errShort, "%d bytes of %d", n, len(whole))
	}
}

// errPartly is an answer of which something was believed though it could not be read whole.
var errPartly = errors.New("some of it was believed")

func partly[T any](read map[commitlog.TopicPartition]T, err error) error {
	if errors.Is(err, errShort) && read != nil {
		return errPartly
	}
	return err
}

// Metadata v10 is as another client reads and writes it.
func TestMetadataMessages(t *testing.T) {
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(10)
	require.NoError(t, req.ReadFrom(requestBody(t, appendMetadata(nil, "me", []string{"a", "bb"}))))
	require.Len(t, req.Topics, 2)
	require.Equal(t, "bb", *req.Topics[1].Topic)
	require.False(t, req.AllowAutoTopicCreation)
	require.NoError(t, req.ReadFrom(requestBody(t, appendMetadata(nil, "me", nil))))
	require.NotNil(t, req.Topics, "null would ask for all of them")
	require.Empty(t, req.Topics)

	res := kmsg.NewPtrMetadataResponse()
	res.Version, res.ControllerID = 10, 2
	for i := range int32(2) {
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = i, "host", 90+i
		res.Brokers = append(res.Brokers, b)
	}
	topic := kmsg.NewMetadataResponseTopic()
	topic.Topic, topic.TopicID = kmsg.StringPtr("a"), [16]byte{1, 2, 3}
	for i := range int32(2) {
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Leader, p.Replicas, p.ISR, p.OfflineReplicas = i, 1-i, []int32{0, 1}, []int32{1}, []int32{0}
		topic.Partitions = append(topic.Partitions, p)
	}
	missing := kmsg.NewMetadataResponseTopic()
	missing.Topic, missing.ErrorCode = kmsg.StringPtr("bb"), codeUnknownTopic
	res.Topics = append(res.Topics, topic, missing)
	whole := res.AppendTo(answerHeader())
	d, err := readMetadata(whole)
	require.NoError(t, err)
	require.Equal(t, &description{controller: 2, brokers: map[int32]string{0: "host:90", 1: "host:91"}, topics: []topicDescription{
		{name: "a", id: commitlog.TopicID{1, 2, 3}, partitions: []partitionDescription{{0, 1}, {1, 0}}},
		{name: "bb", code: codeUnknownTopic}}}, d)
	cutShort(t, whole, func(b []byte) error { _, err := readMetadata(b); return err })
}

// So are DeleteRecords, DescribeProducers and ListTransactions.
func TestAdminMessages(t *testing.T) {
	tps := []commitlog.TopicPartition{{Topic: "a", Partition: 1}, {Topic: "a", Partition: 2}}
	del := kmsg.NewPtrDeleteRecordsRequest()
	del.SetVersion(2)
	require.NoError(t, del.ReadFrom(requestBody(t, appendDeleteRecords(nil, "me", tps, map[commitlog.TopicPartition]int64{tps[0]: 5, tps[1]: 6}, 7))))
	require.Equal(t, int32(7), del.TimeoutMillis)
	require.Equal(t, "a", del.Topics[0].Topic)
	require.Equal(t, int64(6), del.Topics[0].Partitions[1].Offset)
	deleted := kmsg.NewPtrDeleteRecordsResponse()
	deleted.Version = 2
	dt := kmsg.NewDeleteRecordsResponseTopic()
	dt.Topic = "a"
	for i, code := range []int16{0, codeOffsetOutOfRange, codeNotLeader, 44} {
		p := kmsg.NewDeleteRecordsResponseTopicPartition()
		p.Partition, p.ErrorCode = int32(i), code
		dt.Partitions = append(dt.Partitions, p)
	}
	deleted.Topics = append(deleted.Topics, dt)
	done, err := readDeleteRecords("op", deleted.AppendTo(answerHeader()))
	require.ErrorContains(t, err, "op a/3: POLICY_VIOLATION (44)", "fatal ones first")
	require.Equal(t, map[commitlog.TopicPartition]bool{{Topic: "a", Partition: 0}: true, {Topic: "a", Partition: 1}: false}, done)
	deleted.Topics[0].Partitions = dt.Partitions[:1]
	cutShort(t, deleted.AppendTo(answerHeader()), func(b []byte) error { return partly(readDeleteRecords("op", b)) })

	producers := kmsg.NewPtrDescribeProducersRequest()
	require.NoError(t, producers.ReadFrom(requestBody(t, appendDescribeProducers(nil, "me", tps))))
	require.Equal(t, []int32{1, 2}, producers.Topics[0].Partitions)
	described := kmsg.NewPtrDescribeProducersResponse()
	pt := kmsg.NewDescribeProducersResponseTopic()
	pt.Topic = "a"
	for i, code := range []int16{0, codeTopicUnauthorized, codeNotLeader} {
		p := kmsg.NewDescribeProducersResponseTopicPartition()
		p.Partition, p.ErrorCode = int32(i), code
		if code == 0 {
			for j, start := range []int64{-1, 40} {
				a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
				a.ProducerID, a.CurrentTxnStartOffset, a.LastTimestamp = int64(j), start, 99
				p.ActiveProducers = append(p.ActiveProducers, a)
			}
		}
		pt.Partitions = append(pt.Partitions, p)
	}
	described.Topics = append(described.Topics, pt)
	active, err := readDescribeProducers("op", described.AppendTo(answerHeader()))
	require.ErrorContains(t, err, "op a/2: NOT_LEADER_OR_FOLLOWER (6)")
	require.Equal(t, map[commitlog.TopicPartition][]activeTxn{{Topic: "a", Partition: 0}: {{1, 40, 99}}, {Topic: "a", Partition: 1}: {{producer: -1}}}, active)
	described.Topics[0].Partitions = pt.Partitions[:1]
	cutShort(t, described.AppendTo(answerHeader()), func(b []byte) error { return partly(readDescribeProducers("op", b)) })

	list := kmsg.NewPtrListTransactionsRequest()
	require.NoError(t, list.ReadFrom(requestBody(t, appendListTransactions(nil, "me", []int64{3, 4}))))
	require.Equal(t, []int64{3, 4}, list.ProducerIDFilters)
	require.Empty(t, list.StateFilters)
	listed := kmsg.NewPtrListTransactionsResponse()
	listed.UnknownStateFilters = []string{"odd"}
	state := kmsg.NewListTransactionsResponseTransactionState()
	state.TransactionalID, state.ProducerID, state.TransactionState = "txn", 4, "Ongoing"
	listed.TransactionStates = append(listed.TransactionStates, state)
	names, err := readListTransactions(listed.AppendTo(answerHeader()))
	require.NoError(t, err)
	require.Equal(t, map[int64]string{4: "txn"}, names)
	cutShort(t, listed.AppendTo(answerHeader()), func(b []byte) error { _, err := readListTransactions(b); return err })
	listed.ErrorCode = codeCoordinatorLoading
	_, err = readListTransactions(listed.AppendTo(answerHeader()))
	require.Equal(t, commitlog.Retriable, commitlog.ClassOf(err))
}
