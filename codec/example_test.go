package codec_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/wickerwork/wicker/codec"
)

type Delay struct {
	Carrier string `json:"carrier"`
	Minutes int    `json:"minutes"`
}

func ExampleJSON() {
	delays := codec.JSON[Delay](codec.RejectUnknown())
	b, _ := delays.Append(nil, Delay{Carrier: "UA", Minutes: 11})
	fmt.Printf("%s\n", b)

	_, err := delays.Decode([]byte(`{"carrier":"UA","minutes":"eleven"}`))
	fmt.Println(err)
	_, err = delays.Decode([]byte(`{"carrier":"UA","password":"1234"}`))
	fmt.Println(err, errors.Is(err, codec.ErrUnknownMember))
	// Output:
	// {"carrier":"UA","minutes":11}
	// codec: json Delay: /minutes: byte 26: value does not fit: json string for go int
	// codec: json Delay: /*: byte 16: unknown member true
}

func ExampleNullable() {
	names := codec.Nullable(codec.String)
	none, _ := names.Decode(nil)
	empty, _ := names.Decode([]byte{})
	fmt.Printf("%v %q\n", none, *empty)
	// Output: <nil> ""
}

func ExampleOmitZero() {
	counts := codec.OmitZero(codec.Int64)
	one, _ := counts.Append(nil, 1)
	zero, _ := counts.Append(nil, 0)
	fmt.Println(one, "tombstone:", zero == nil)
	// Output: [0 0 0 0 0 0 0 1] tombstone: true
}

func ExampleLimit() {
	keys := codec.Limit(codec.String, 8)
	_, err := keys.Append(nil, "a key that is much too long")
	fmt.Println(err)
	// Output: codec: string: too large: 27 bytes, must be <= 8
}

func ExampleDefault() {
	c, _ := codec.Default[Delay]()
	fmt.Println(codec.Describe(c))
	_, err := codec.Default[map[string]chan int]()
	fmt.Println(err)
	// Output:
	// json Delay
	// codec: json map[string]chan int: /*: type not supported: go chan int has no json form
}

func ExampleTimeCodec() {
	b, _ := codec.Time.Append(nil, time.Date(2024, 1, 1, 1, 0, 0, 0, time.FixedZone("CET", 3600)))
	t, _ := codec.Time.Decode(b)
	fmt.Printf("%x %v\n", b, t)
	// Output: 0000018cc251f400 2024-01-01 00:00:00 +0000 UTC
}
