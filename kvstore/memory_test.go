package kvstore_test

import (
	"testing"

	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/kvstore/kvstoretest"
)

func TestMemoryConformance(t *testing.T) {
	kvstoretest.Run(t, func(*testing.T, string) kvstore.Engine { return kvstore.NewMemory() }, kvstoretest.Features{})
}
