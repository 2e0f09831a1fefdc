// Package codectest is the conformance suite of [codec.Codec]: what executor, stores and operators
// rely on, tried on a codec with values and bytes that its author gives. Every codec of this module
// passes it; one of your own should:
//
//	func TestOrder(t *testing.T) {
//		codectest.Run(t, orders.Codec, codectest.Cases[orders.Order]{
//			Golden:  []codectest.Golden[orders.Order]{{Value: ..., Bytes: ...}},
//			Values:  []orders.Order{...},
//			Invalid: []codectest.Invalid{{Src: []byte("..."), Err: orders.ErrVersion}},
//		})
//	}
//
// What Run checks, each in a subtest of that name:
//
//	golden       Append writes exactly the bytes given, and Decode reads them: the wire format is pinned
//	accepts      Decode reads other writers' bytes
//	invalid      Decode refuses bytes, with the error given, T's zero value, and a text that hides content
//	refused      Append refuses values, with the error given, and gives dst back
//	roundtrip    decode(encode(v)) == v, and encoding the same value twice gives the same bytes
//	prefix       Append extends dst, whatever its capacity, and leaves what was in it
//	retention    Append keeps neither dst nor parts of v; earlier results survive later calls
//	source       Decode never writes to src or behind it; a decoded value survives src unless it may share
//	null         null is refused as ErrNull or means one value; no other value encodes to null
//	damaged      cut and altered encodings never panic, and what still decodes is a value like any other
//	allocation   Decode allocates in proportion to src, damaged or not
//	concurrency  one codec serves several goroutines
//	description  codec.Describe is one short line of ASCII, and codec.Check has no complaint
//
// It does not try to find values and bytes by itself: that is a fuzz test's work. Run is for tests; it is
// safe to call from parallel tests, but allocation is measured for the whole process, and the least of a
// few tries counts.
package codectest
