package kafkalog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// maxBatchBytes bounds what a batch decompresses to: more is refused as corrupt.
const maxBatchBytes = 512 << 20

// codec is a compression by the number it has in a batch's attributes.
type codec int16

const (
	none codec = iota
	gzipCodec
	snappyCodec
	lz4Codec
	zstdCodec
)

// codecOf returns the codec of a name in commitlog.ProducerConfig.
func codecOf(name string) (codec, error) {
	switch name {
	case "", "none":
		return none, nil
	case "gzip":
		return gzipCodec, nil
	case "snappy":
		return snappyCodec, nil
	case "lz4":
		return lz4Codec, nil
	case "zstd":
		return zstdCodec, nil
	}
	return none, fmt.Errorf("compression (%q) must be none, gzip, snappy, lz4 or zstd", name)
}

// Coders are expensive to make and are kept. The pools hold no state that could be seen.
var (
	gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}
	lz4Writers  = sync.Pool{New: func() any { return lz4.NewWriter(nil) }}
	lz4Readers  = sync.Pool{New: func() any { return lz4.NewReader(nil) }}

	zstdEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithZeroFrames(true))
	})
	zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxBatchBytes))
	})
)

// appender is an io.Writer onto a slice.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// compress appends the compressed form of src to dst.
func (c codec) compress(dst, src []byte) ([]byte, error) {
	switch c {
	case gzipCodec:
		w := gzipWriters.Get().(*gzip.Writer)
		defer gzipWriters.Put(w)
		a := appender{dst}
		w.Reset(&a)
		_, err := w.Write(src)
		err = errors.Join(err, w.Close())
		return a.b, err
	case snappyCodec:
		n := snappy.MaxEncodedLen(len(src))
		if n < 0 {
			return dst, fmt.Errorf("snappy: a batch of %d bytes is too large", len(src))
		}
		if cap(dst)-len(dst) < n {
			dst = append(make([]byte, 0, len(dst)+n), dst...)
		}
		out := snappy.Encode(dst[len(dst):len(dst)+n], src)
		return dst[:len(dst)+len(out)], nil
	case lz4Codec:
		w := lz4Writers.Get().(*lz4.Writer)
		defer lz4Writers.Put(w)
		a := appender{dst}
		w.Reset(&a)
		_, err := w.Write(src)
		err = errors.Join(err, w.Close())
		return a.b, err
	case zstdCodec:
		e, err := zstdEncoder()
		if err != nil {
			return dst, err
		}
		return e.EncodeAll(src, dst), nil
	}
	return append(dst, src...), nil
}

// decompress returns the records of a batch in fresh memory.
func (c codec) decompress(src []byte) ([]byte, error) {
	var out []byte
	var err error
	switch c {
	case none:
		return src, nil
	case gzipCodec:
		var r *gzip.Reader
		if r, err = gzip.NewReader(bytes.NewReader(src)); err == nil {
			out, err = readAll(r, len(src))
		}
	case snappyCodec:
		out, err = unsnappy(src)
	case lz4Codec:
		r := lz4Readers.Get().(*lz4.Reader)
		defer lz4Readers.Put(r)
		r.Reset(bytes.NewReader(src))
		out, err = readAll(r, len(src))
	case zstdCodec:
		var d *zstd.Decoder
		if d, err = zstdDecoder(); err == nil {
			out, err = d.DecodeAll(src, nil)
		}
	default:
		return nil, fmt.Errorf("%w: unknown compression %d", commitlog.ErrCorrupt, c)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: decompressing: %w", commitlog.ErrCorrupt, err)
	}
	return out, nil
}

// readAll reads r to its end, at most maxBatchBytes.
func readAll(r io.Reader, compressed int) ([]byte, error) {
	b := make([]byte, 0, 4*compressed+512)
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):cap(b)])
		if b = b[:len(b)+n]; len(b) > maxBatchBytes {
			return nil, fmt.Errorf("more than %d bytes", maxBatchBytes)
		}
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// xerialMagic begins the framing that Java's snappy streams write; without it the data is
// one snappy block.
const xerialMagic = "\x82SNAPPY\x00"

func unsnappy(src []byte) ([]byte, error) {
	if len(src) < 16 || string(src[:8]) != xerialMagic {
		return unsnappyBlock(nil, src)
	}
	var out []byte
	for rest := src[16:]; len(rest) > 0; {
		if len(rest) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		n := int(binary.BigEndian.Uint32(rest))
		if rest = rest[4:]; n > len(rest) {
			return nil, io.ErrUnexpectedEOF
		}
		var err error
		if out, err = unsnappyBlock(out, rest[:n]); err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	return out, nil
}

func unsnappyBlock(dst, src []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(src)
	if err != nil {
		return nil, err
	}
	// An element takes two bytes or more and stands for 64 at most: what claims more is refused
	// before memory is made for it.
	if len(dst)+n > maxBatchBytes || n > 32*len(src) {
		return nil, fmt.Errorf("a block of %d bytes claims to hold %d", len(src), n)
	}
	block, err := snappy.Decode(nil, src)
	if err != nil {
		return nil, err
	}
	if dst == nil {
		return block, nil
	}
	return append(dst, block...), nil
}
