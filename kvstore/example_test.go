package kvstore_test

import (
	"fmt"

	"github.com/wickerwork/wicker/kvstore"
)

// A task writes what a transaction changed together with how far the changelog
// is contained, and asks for that when it starts again.
func Example() {
	engine := kvstore.NewMemory()
	if err := engine.Open(); err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()
	store, err := engine.OpenStore("orders-0")
	if err != nil {
		fmt.Println(err)
		return
	}

	var batch kvstore.Batch
	batch.Put([]byte("berlin"), []byte("12"))
	batch.Put([]byte("bonn"), []byte("7"))
	batch.SetCheckpoint("orders-count-changelog", 20)
	if err := store.Write(&batch); err != nil {
		fmt.Println(err)
		return
	}

	err = store.Scan([]byte("b"), []byte("c"), func(key, value []byte) error {
		fmt.Printf("%s %s\n", key, value)
		return nil
	})
	offset, _, _ := store.Checkpoint("orders-count-changelog")
	fmt.Println("restore from", offset, err)
	// Output:
	// berlin 12
	// bonn 7
	// restore from 20 <nil>
}
