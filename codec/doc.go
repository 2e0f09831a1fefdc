// Package codec turns typed keys and values into the bytes of Kafka records and back. It is the lowest
// layer: it knows neither Kafka nor topologies, and everything above it, typed topics, stores and
// repartition topics, holds a [Codec] for each type.
//
//	var Flights = ops.NewTopic("flights", codec.String, codec.JSON[Flight](codec.RejectUnknown()))
//
// See the examples of [JSON], [Nullable], [OmitZero] and [Limit].
//
// # Wire formats
//
//	String    the UTF-8 text as it is, never quoted         "N14228"     4e 31 34 32 32 38
//	Bytes     the bytes as they are
//	Int16     2 bytes, big endian, two's complement         -2           ff fe
//	Int32     4 bytes, big endian, two's complement         -2           ff ff ff fe
//	Int64     8 bytes, big endian, two's complement         -2           ff ff ff ff ff ff ff fe
//	Float32   4 bytes, big endian, IEEE 754                 1.5          3f c0 00 00
//	Float64   8 bytes, big endian, IEEE 754                 1.5          3f f8 00 00 00 00 00 00
//	Bool      1 byte, 0 or 1                                true         01
//	Time      8 bytes, big endian, milliseconds since 1970  2024-01-01   00 00 01 8c c2 51 f4 00
//	JSON      one document, without white space             {"count":1}
//
// All but Time are what the serializers of Kafka's Java clients write, so both read each other's topics.
// [LittleEndian] turns the byte order round, for programs that write a number's memory. [CanonicalJSON] has
// one spelling for each document, which is what a key must have. [Nullable], [OmitZero] and [Limit] wrap
// another codec and change null or size only; [Default] picks the codec of a type. What a type looks like on
// the wire does not change between versions of this package; where the user's type must change,
// [Versioned] writes which one it was and reads all of them.
//
// # Null
//
// A Kafka key or value may be null; a null value is a tombstone, which deletes. Nil bytes are null, in both
// directions, and empty bytes are not. Only Bytes has a null of its own, its nil slice. String reads null as
// "", and JSON of a pointer, slice, map or interface reads it as nil, but neither ever writes it. For the
// others null is [ErrNull].
//
// # Guarantees
//
//	C1  Decode(Append(v)) is v, where a codec's documentation names no exception (Time:
//	    milliseconds, UTC; JSON: nil slices and maps come back empty)
//	C2  Append of equal values gives equal bytes: a key is found again, an unchanged state stays unchanged
//	C3  Decode reads the whole of its bytes or fails; it never guesses, truncates or coerces
//	C4  Decode neither writes to its bytes nor, but for Bytes, keeps them; Append keeps neither dst nor v
//	C5  Decode allocates in proportion to its bytes, whatever they say about themselves
//	C6  An error tells where and what kind, and never the content: see below
//
// The suite in package codectest checks these on any codec, this package's or a user's.
//
// # Errors
//
// Everything returned is an [*Error] that wraps one of a closed set of causes, [ErrNull] to
// [ErrUnsupported], so errors.Is and errors.As both work. Records hold what must not get into a log, so
// no text holds any part of one: of a JSON document an error tells a pointer, of which only names of the Go
// type's own members and indices of arrays are shown ("/legs/3/delay"; map keys and unknown members are
// "*"), the byte offset, the kind of JSON value, and the Go type. What a type's own UnmarshalJSON or
// MarshalJSON said is dropped, as such methods like to quote what they were given. A panic of such a method
// is not caught here; the executor reports it with the record.
//
// All of them are permanent: the same bytes give the same error each time. Topic, partition and offset are
// added by who knows them.
//
// # Concurrency and cost
//
// Every codec is an immutable value made once and is safe for concurrent use, and so must a user's be.
//
// Neither Append, given room in dst, nor Decode allocates, with these exceptions: Decode of String copies
// its text (one allocation, none for less than two bytes), Nullable has one for its pointer, and JSON has
// those of the strings, slices, maps and pointers within the value. JSON's own work is pooled: both ways
// take a little less time than a bare encoding/json/v2 on the same value (BenchmarkDecode,
// BenchmarkAppend).
//
// # What it is not
//
// There is no coercion ("1" is no number). [Check] says before the first record that JSON cannot carry a
// type; whether two programs agree on a type it cannot know.
package codec
