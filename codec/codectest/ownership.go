package codectest

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"
)

// The checks of who owns which bytes, and of what a codec does with bytes that nobody wrote.

func (s *suite[T]) roundtrip(t failer) {
	t.Helper()
	for i, v := range s.values {
		b, ok := s.encode(t, i, v)
		if !ok {
			continue
		}
		back, err := s.codec.Decode(b)
		if err != nil {
			t.Errorf("value %d (%+v): decode of its encoding %s: %v", i, v, show(b), err)
			continue
		}
		if !s.Equal(back, v) {
			t.Errorf("value %d: %+v came back as %+v", i, v, back)
		}
		for range 3 { // a map's order changes between calls
			if again, ok := s.encode(t, i, v); ok && !same(again, b) {
				t.Errorf("value %d (%+v): append wrote %s, and then %s", i, v, show(b), show(again))
				break
			}
		}
	}
}

func (s *suite[T]) prefix(t failer) {
	t.Helper()
	const before = "before"
	for i, v := range s.values {
		want, ok := s.encode(t, i, v)
		if !ok {
			continue
		}
		for _, room := range []int{0, 1, len(want) / 2, len(want), len(want) + 1, 2*len(want) + 64} {
			dst := append(make([]byte, 0, len(before)+room), before...)
			out, err := s.codec.Append(dst, v)
			switch {
			case err != nil:
				t.Errorf("value %d (%+v), %d bytes of room: append: %v", i, v, room, err)
			case want == nil && out != nil:
				t.Errorf("value %d (%+v) is null without a prefix, and %s with one", i, v, show(out))
			case want != nil && string(out) != before+string(want):
				t.Errorf("value %d (%+v), %d bytes of room: %s, want %q and then %s", i, v, room, show(out), before, show(want))
			}
			if string(dst) != before {
				t.Errorf("value %d (%+v), %d bytes of room: append changed what was in dst to %s", i, v, room, show(dst))
			}
		}
		if out, err := s.codec.Append(nil, v); err != nil || !bytes.Equal(out, want) {
			t.Errorf("value %d (%+v): append to a nil dst: %s, %v, want %s", i, v, show(out), err, show(want))
		}
	}
}

func (s *suite[T]) retention(t failer) {
	t.Helper()
	// Earlier results survive later calls, on dst with room and without.
	results := make([][]byte, len(s.values))
	copies := make([][]byte, len(s.values))
	for i, v := range s.values {
		out, err := s.codec.Append(make([]byte, 0, 16*(i%3)), v)
		if err != nil {
			continue // roundtrip reports it
		}
		results[i], copies[i] = out, clone(out)
	}
	for i := range results {
		if !same(results[i], copies[i]) {
			t.Errorf("value %d (%+v): its encoding %s became %s with later calls", i, s.values[i], show(copies[i]), show(results[i]))
		}
	}
	// Writing over a result reaches neither the value nor the codec.
	for i, v := range s.values {
		scribble(results[i])
		if again, err := s.codec.Append([]byte{}, v); err == nil && !same(again, copies[i]) {
			t.Errorf("value %d: its encoding %s became %s after the first result was written over", i, show(copies[i]), show(again))
		}
	}
}

func (s *suite[T]) source(t failer) {
	t.Helper()
	const behind = "behind!!"
	for i, in := range s.inputs() {
		if in == nil {
			continue
		}
		src := append(clone(in), behind...)
		v, err := s.codec.Decode(src[:len(in)])
		if string(src) != string(in)+behind {
			t.Errorf("input %d (%s): decode wrote to its source: %s", i, show(in), show(src))
		}
		if err != nil || s.Shares {
			continue
		}
		scribble(src)
		want, err := s.codec.Decode(clone(in))
		if err != nil || !s.Equal(v, want) {
			t.Errorf("input %d (%s): the decoded value became %+v after its source was written over, want %+v, %v", i, show(in), v, want, err)
		}
	}
}

// variants calls f with cut and altered copies of b, a few hundred at most.
func variants(b []byte, f func([]byte)) {
	step := max(1, len(b)/64)
	for n := 0; n < len(b); n += step {
		f(clone(b[:n]))
	}
	for i := 0; i < len(b); i += step {
		for _, x := range []byte{0x01, 0x20, 0x80, 0xff} {
			c := clone(b)
			c[i] ^= x
			f(c)
		}
	}
	f(append(clone(b), 0))
	f(append(clone(b), b...))
}

func (s *suite[T]) damaged(t failer) {
	t.Helper()
	for _, in := range s.inputs() {
		variants(in, func(src []byte) {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("decode of %s panics: %v", show(src), p)
				}
			}()
			v, err := s.codec.Decode(src)
			if err != nil {
				return
			}
			out, err := s.codec.Append([]byte{}, v)
			if err != nil {
				t.Errorf("%s decodes to %+v, which append refuses: %v", show(src), v, err)
				return
			}
			if back, err := s.codec.Decode(out); err != nil || !s.Equal(back, v) {
				t.Errorf("%s decodes to %+v, which comes back as %+v, %v", show(src), v, back, err)
			}
		})
	}
}

func (s *suite[T]) allocation(t failer) {
	t.Helper()
	for _, in := range s.inputs() {
		if !s.bounded(t, in) {
			return
		}
		bounded := true
		n := 0
		variants(in, func(src []byte) {
			if n++; n%8 == 0 { // measuring stops the world each time
				bounded = bounded && s.bounded(t, src)
			}
		})
		if !bounded {
			return
		}
	}
}

// bounded reports whether Decode of src allocates what it may. The least of a few tries counts, as other
// goroutines allocate too.
func (s *suite[T]) bounded(t failer, src []byte) bool {
	t.Helper()
	limit := uint64(16<<10 + s.BytesPerByte*len(src))
	least := ^uint64(0)
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = s.codec.Decode(src)
		runtime.ReadMemStats(&after)
		if least = min(least, after.TotalAlloc-before.TotalAlloc); least <= limit {
			return true
		}
	}
	t.Errorf("decode of %s allocates %d bytes, must be <= %d", show(src), least, limit)
	return false
}

func (s *suite[T]) concurrency(t failer) {
	t.Helper()
	var mu sync.Mutex // guards failures
	var failures []string
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for round := range 8 {
				for i := range s.values {
					v := s.values[(i+g+round)%len(s.values)]
					out, err := s.codec.Append([]byte{}, v)
					if err == nil {
						var back T
						if back, err = s.codec.Decode(out); err == nil && s.Equal(back, v) {
							continue
						}
					}
					mu.Lock()
					failures = append(failures, fmt.Sprintf("%+v, in one of four goroutines: %s, %v", v, show(out), err))
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	for _, f := range failures {
		t.Errorf("%s", f)
	}
}

func scribble(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
}

// show prints bytes for a failure.
func show(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case len(b) > 120:
		return fmt.Sprintf("%q... (%d bytes)", b[:120], len(b))
	default:
		return fmt.Sprintf("%q", b)
	}
}
