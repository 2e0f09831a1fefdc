package codec_test

import (
	"fmt"
	"strconv"
	"strings"

	"encoding/json/v2"
	"testing"
	"time"

	"github.com/wickerwork/wicker/codec"
)

// flight is a record of the size and shape that the examples have: 19 members, some of them absent.
type flight struct {
	Year      int       `json:"year"`
	Month     int       `json:"month"`
	Day       int       `json:"day"`
	DepTime   *int      `json:"dep_time"`
	SchedDep  int       `json:"sched_dep_time"`
	DepDelay  *float64  `json:"dep_delay"`
	ArrTime   *int      `json:"arr_time"`
	SchedArr  int       `json:"sched_arr_time"`
	ArrDelay  *float64  `json:"arr_delay"`
	Carrier   string    `json:"carrier"`
	Flight    int       `json:"flight"`
	Tail      string    `json:"tailnum"`
	Origin    string    `json:"origin"`
	Dest      string    `json:"dest"`
	AirTime   *float64  `json:"air_time"`
	Distance  float64   `json:"distance"`
	Hour      int       `json:"hour"`
	Minute    int       `json:"minute"`
	Scheduled time.Time `json:"time_hour"`
}

const flightJSON = `{"year":2013,"month":1,"day":1,"dep_time":517,"sched_dep_time":515,"dep_delay":2,` +
	`"arr_time":830,"sched_arr_time":819,"arr_delay":11,"carrier":"UA","flight":1545,"tailnum":"N14228",` +
	`"origin":"EWR","dest":"IAH","air_time":227,"distance":1400,"hour":5,"minute":15,` +
	`"time_hour":"2013-01-01T10:00:00Z"}`

// stats is a small state, as an aggregate keeps it.
type stats struct {
	Count int64   `json:"count"`
	Sum   float64 `json:"sum"`
	Worst float64 `json:"worst"`
}

const statsJSON = `{"count":4711,"sum":12345.5,"worst":321}`

// The pairs compare a codec with encoding/json/v2 by itself, on the same value.

func BenchmarkDecode(b *testing.B) {
	b.Run("json-flight", decodes(codec.JSON[flight](), flightJSON))
	b.Run("bare-flight", bareDecodes[flight](flightJSON))
	b.Run("json-stats", decodes(codec.JSON[stats](), statsJSON))
	b.Run("bare-stats", bareDecodes[stats](statsJSON))
	b.Run("string", decodes(codec.String, "N14228"))
	b.Run("bytes", decodes(codec.Bytes, "N14228"))
	b.Run("int64", decodes(codec.Int64, "\x00\x00\x00\x00\x00\x00\x00\x2a"))
	b.Run("time", decodes(codec.Time, "\x00\x00\x01\x8c\xc2\x51\xf4\x00"))
	b.Run("omitzero-int64", decodes(codec.OmitZero(codec.Int64), "\x00\x00\x00\x00\x00\x00\x00\x2a"))
}

func BenchmarkAppend(b *testing.B) {
	b.Run("json-flight", appends(codec.JSON[flight](), flightJSON))
	b.Run("bare-flight", bareAppends[flight](flightJSON))
	b.Run("json-stats", appends(codec.JSON[stats](), statsJSON))
	b.Run("bare-stats", bareAppends[stats](statsJSON))
	b.Run("string", appends(codec.String, "N14228"))
	b.Run("bytes", appends(codec.Bytes, "N14228"))
	b.Run("int64", appends(codec.Int64, "\x00\x00\x00\x00\x00\x00\x00\x2a"))
	b.Run("time", appends(codec.Time, "\x00\x00\x01\x8c\xc2\x51\xf4\x00"))
	b.Run("omitzero-int64", appends(codec.OmitZero(codec.Int64), "\x00\x00\x00\x00\x00\x00\x00\x2a"))
}

func decodes[T any](c codec.Codec[T], doc string) func(*testing.B) {
	src := []byte(doc)
	return func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(src)))
		for b.Loop() {
			if _, err := c.Decode(src); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func appends[T any](c codec.Codec[T], doc string) func(*testing.B) {
	return func(b *testing.B) {
		v, err := c.Decode([]byte(doc))
		if err != nil {
			b.Fatal(err)
		}
		dst := make([]byte, 0, 1024)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Append(dst, v); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func bareDecodes[T any](doc string) func(*testing.B) {
	src := []byte(doc)
	return func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(src)))
		for b.Loop() {
			var v T
			if err := json.Unmarshal(src, &v); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func bareAppends[T any](doc string) func(*testing.B) {
	return func(b *testing.B) {
		var v T
		if err := json.Unmarshal([]byte(doc), &v); err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := json.Marshal(&v); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkCanonical: bytes of the document, spelled otherwise.
func BenchmarkCanonical(b *testing.B) {
	for name, doc := range map[string]string{"flight": flightJSON, "stats": statsJSON, "form": `{"a":1,"b":[1.5,"text",null],"c":{"d":true,"e":"` + "\u00e9" + `"}}`} {
		b.Run(name, func(b *testing.B) {
			src, dst := []byte(doc), make([]byte, 0, 4096)
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := codec.AppendCanonical(dst, src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRecord: reading and setting one field must not depend on how many others there are.
func BenchmarkRecord(b *testing.B) {
	count, name := codec.Attr("f3", codec.IntKind), codec.Attr("f5", codec.StringKind)
	for _, fields := range []int{8, 80, 800} {
		var doc strings.Builder
		for i := range fields {
			fmt.Fprintf(&doc, `,"f%d":%s`, i, []string{strconv.Itoa(i), `"a text"`}[btoi(i == 5)])
		}
		src := []byte("{" + doc.String()[1:] + "}")
		r, err := codec.ParseRecord(src)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("decode-%d", fields), decodes(codec.Records, string(src)))
		b.Run(fmt.Sprintf("get-%d", fields), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := count.Get(r); err != nil {
					b.Fatal(err)
				}
				if _, err := name.Get(r); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("set-%d", fields), func(b *testing.B) {
			b.ReportAllocs()
			r, n := r, int64(0)
			for b.Loop() {
				n++
				if err := count.Set(&r, n); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("set-all-%d", fields), func(b *testing.B) {
			attrs := make([]codec.Attribute[int64], fields)
			for i := range attrs {
				attrs[i] = codec.Attr("f"+strconv.Itoa(i), codec.IntKind)
			}
			b.ReportAllocs()
			r, n := r, 0
			for b.Loop() {
				n++
				if err := attrs[n%fields].Set(&r, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
