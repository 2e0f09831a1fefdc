//go:build cgo

package rocksdb

/*
#cgo LDFLAGS: -lrocksdb

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "rocksdb/c.h"

// What a call gives back. Strings and handles that are not NULL are to be
// freed by the matching function.
typedef struct {
	int64_t n;    // length of the value, -1 if absent; or entries in the chunk
	int64_t used; // bytes of the buffer in use
	int64_t need; // bytes of the buffer needed for the next entry
	void*   more; // what remains: a pinned value, or an open scan
	char*   err;
} wicker_result;

// wicker_get copies the value of key to dst if it has room for it, and
// otherwise returns it pinned, for wicker_take.
static wicker_result wicker_get(rocksdb_t* db, rocksdb_readoptions_t* ro,
		const char* key, size_t klen, char* dst, size_t cap) {
	wicker_result r = {-1, 0, 0, NULL, NULL};
	rocksdb_pinnableslice_t* v = rocksdb_get_pinned(db, ro, key, klen, &r.err);
	if (v == NULL) return r;
	size_t n;
	const char* p = rocksdb_pinnableslice_value(v, &n);
	r.n = (int64_t)n;
	if (n > cap) {
		r.more = v;
		return r;
	}
	if (n > 0) memcpy(dst, p, n);
	rocksdb_pinnableslice_destroy(v);
	return r;
}

// wicker_take copies a pinned value to dst, which has room, and releases it.
static void wicker_take(void* pinned, char* dst) {
	size_t n;
	const char* p = rocksdb_pinnableslice_value(pinned, &n);
	if (n > 0) memcpy(dst, p, n);
	rocksdb_pinnableslice_destroy(pinned);
}

// wicker_write applies a batch in its encoded form.
static wicker_result wicker_write(rocksdb_t* db, rocksdb_writeoptions_t* wo,
		const char* rep, size_t len) {
	wicker_result r = {0, 0, 0, NULL, NULL};
	rocksdb_writebatch_t* b = rocksdb_writebatch_create_from(rep, len);
	rocksdb_write(db, wo, b, &r.err);
	rocksdb_writebatch_destroy(b);
	return r;
}

// wicker_memory returns the bytes of the memtable being written in n, and of all
// in used.
static wicker_result wicker_memory(rocksdb_t* db) {
	wicker_result r = {0, 0, 0, NULL, NULL};
	uint64_t active = 0, all = 0;
	rocksdb_property_int(db, "rocksdb.cur-size-active-mem-table", &active);
	rocksdb_property_int(db, "rocksdb.cur-size-all-mem-tables", &all);
	r.n = (int64_t)active;
	r.used = (int64_t)all;
	return r;
}

typedef struct {
	rocksdb_readoptions_t* ro;
	rocksdb_iterator_t* it;
	char* upper; // ro points into it
} wicker_scan;

static void wicker_scan_close(void* p) {
	wicker_scan* s = p;
	if (s->it) rocksdb_iter_destroy(s->it);
	if (s->ro) rocksdb_readoptions_destroy(s->ro);
	free(s->upper);
	free(s);
}

// wicker_scan_next fills buf with entries: two lengths of 4 bytes in the
// machine's order, key, value. It stops before the entry that has no room; if
// that is the first, need says how much it wants. At the end it closes the scan,
// and more is NULL.
static wicker_result wicker_scan_next(void* p, char* buf, size_t cap) {
	wicker_scan* s = p;
	wicker_result r = {0, 0, 0, s, NULL};
	for (; rocksdb_iter_valid(s->it); rocksdb_iter_next(s->it)) {
		size_t klen, vlen;
		const char* k = rocksdb_iter_key(s->it, &klen);
		const char* v = rocksdb_iter_value(s->it, &vlen);
		size_t want = 8 + klen + vlen;
		if (want > cap - (size_t)r.used) {
			r.need = (int64_t)want;
			return r;
		}
		uint32_t lens[2] = {(uint32_t)klen, (uint32_t)vlen};
		char* at = buf + r.used;
		memcpy(at, lens, 8);
		memcpy(at + 8, k, klen);
		memcpy(at + 8 + klen, v, vlen);
		r.used += (int64_t)want;
		r.n++;
	}
	rocksdb_iter_get_error(s->it, &r.err);
	wicker_scan_close(s);
	r.more = NULL;
	return r;
}

// wicker_scan_open begins a scan of from <= key < to, at a snapshot unless that is
// NULL, and fills buf with the first entries.
static wicker_result wicker_scan_open(rocksdb_t* db, const rocksdb_snapshot_t* at,
		const char* from, size_t flen, const char* to, size_t tlen, char* buf, size_t cap) {
	wicker_scan* s = calloc(1, sizeof *s);
	s->ro = rocksdb_readoptions_create();
	s->upper = malloc(tlen + 1);
	if (tlen > 0) memcpy(s->upper, to, tlen);
	rocksdb_readoptions_set_iterate_upper_bound(s->ro, s->upper, tlen);
	if (at) rocksdb_readoptions_set_snapshot(s->ro, at);
	s->it = rocksdb_create_iterator(db, s->ro);
	rocksdb_iter_seek(s->it, from, flen);
	return wicker_scan_next(s, buf, cap);
}

#cgo noescape wicker_get
#cgo nocallback wicker_get
#cgo noescape wicker_take
#cgo nocallback wicker_take
#cgo noescape wicker_write
#cgo nocallback wicker_write
#cgo noescape wicker_memory
#cgo nocallback wicker_memory
#cgo noescape wicker_scan_open
#cgo nocallback wicker_scan_open
#cgo noescape wicker_scan_next
#cgo nocallback wicker_scan_next
#cgo noescape wicker_scan_close
#cgo nocallback wicker_scan_close
*/
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"unsafe"

	"github.com/linxGnu/grocksdb"
)

// native is the hot path of a database: reads, scans and batches with one call
// into C each, where grocksdb takes three to five and allocates. It uses
// RocksDB's own C API on the handle that grocksdb opened.
//
// Pointers are passed as *C.char, so cgo has no reason to look for pointers in
// the object they point into. C keeps none of them.
type native struct {
	db *C.rocksdb_t
	ro *C.rocksdb_readoptions_t
	wo *C.rocksdb_writeoptions_t
	// at is the snapshot that is read, nil for the database as it is.
	at *C.rocksdb_snapshot_t
}

// snapshot returns n for reading as of now, until release.
func (n *native) snapshot() native {
	at := native{db: n.db, ro: C.rocksdb_readoptions_create(), at: C.rocksdb_create_snapshot(n.db)}
	C.rocksdb_readoptions_set_snapshot(at.ro, at.at)
	return at
}

// release gives a snapshot up.
func (n *native) release() {
	C.rocksdb_readoptions_destroy(n.ro)
	C.rocksdb_release_snapshot(n.db, n.at)
	*n = native{}
}

// newNative finds the handle in grocksdb's DB, which does not export it.
func newNative(db *grocksdb.DB) (native, error) {
	f := reflect.ValueOf(db).Elem().FieldByName("c")
	if !f.IsValid() || f.Kind() != reflect.Pointer || f.IsNil() {
		return native{}, errors.New("this version of grocksdb keeps its handle elsewhere than v1.7.15 does")
	}
	n := native{
		db: (*C.rocksdb_t)(f.UnsafePointer()),
		ro: C.rocksdb_readoptions_create(),
		wo: C.rocksdb_writeoptions_create(),
	}
	C.rocksdb_writeoptions_disable_WAL(n.wo, 1)
	return n, nil
}

// destroy frees the options; the handle is grocksdb's.
func (n *native) destroy() {
	C.rocksdb_readoptions_destroy(n.ro)
	C.rocksdb_writeoptions_destroy(n.wo)
	*n = native{}
}

func chars(b []byte) (*C.char, C.size_t) {
	return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))), C.size_t(len(b))
}

// room returns what lies behind b up to its capacity.
func room(b []byte) (*C.char, C.size_t) { return chars(b[len(b):cap(b)]) }

func failure(text *C.char) error {
	if text == nil {
		return nil
	}
	defer C.rocksdb_free(unsafe.Pointer(text))
	return statusError(C.GoString(text))
}

// get appends the value of key to dst. If dst has little room, spare takes the
// value first, to save the second call that a larger dst would need.
func (n *native) get(dst, key, spare []byte) ([]byte, bool, error) {
	k, klen := chars(key)
	into := dst
	if cap(dst)-len(dst) < cap(spare) {
		into = spare[:0]
	}
	p, space := room(into)
	r := C.wicker_get(n.db, n.ro, k, klen, p, space)
	switch {
	case r.err != nil:
		return dst, false, failure(r.err)
	case r.n < 0:
		return dst, false, nil
	case r.more != nil:
		dst = slices.Grow(dst, int(r.n))
		p, _ = room(dst)
		C.wicker_take(r.more, p)
		return dst[:len(dst)+int(r.n)], true, nil
	case cap(dst)-len(dst) < cap(spare):
		return append(dst, spare[:r.n]...), true, nil
	default:
		return dst[:len(dst)+int(r.n)], true, nil
	}
}

// write applies an encoded batch.
func (n *native) write(rep []byte) error {
	p, size := chars(rep)
	return failure(C.wicker_write(n.db, n.wo, p, size).err)
}

// memory returns the bytes of the memtable being written, and of all that are
// not flushed.
func (n *native) memory() (active, all int64) {
	r := C.wicker_memory(n.db)
	return int64(r.n), int64(r.used)
}

// firstChunk is small, for scans of a few entries or that stop early; later
// ones fill the buffer.
const firstChunk = 2 << 10

// scan calls visit for from <= key < to; to is not open, and the first byte of
// the keys, the prefix, is cut off. buf is scratch; scan returns it, perhaps
// grown, for the next one. stop is an error of visit.
func (n *native) scan(from, to, buf []byte, visit func(key, value []byte) error) (scratch []byte, stop, err error) {
	f, flen := chars(from)
	t, tlen := chars(to)
	p, size := chars(buf[:min(len(buf), firstChunk)])
	r := C.wicker_scan_open(n.db, n.at, f, flen, t, tlen, p, size)
	open := r.more
	defer func() {
		if open != nil {
			C.wicker_scan_close(open)
		}
	}()
	for {
		rest := buf[:r.used]
		for range r.n {
			klen := binary.NativeEndian.Uint32(rest)
			vlen := binary.NativeEndian.Uint32(rest[4:])
			key := rest[8+1 : 8+klen : 8+klen]
			end := 8 + klen + vlen
			value := rest[8+klen : end : end]
			rest = rest[end:]
			if err := visit(key, value); err != nil {
				return buf, err, nil
			}
		}
		if r.err != nil {
			return buf, nil, failure(r.err)
		}
		if open == nil {
			return buf, nil, nil
		}
		if int(r.need) > len(buf) {
			buf = make([]byte, r.need)
		}
		p, size = chars(buf)
		r = C.wicker_scan_next(open, p, size)
		open = r.more
	}
}

// empty reports whether the database has no entry at all.
func (n *native) empty() (bool, error) {
	all := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	p, size := chars(all)
	r := C.wicker_scan_open(n.db, nil, nil, 0, p, size, nil, 0)
	if r.more != nil {
		C.wicker_scan_close(r.more)
	}
	return r.need == 0, failure(r.err)
}

// openDB opens or creates a database.
func openDB(opts *grocksdb.Options, path string) (*grocksdb.DB, native, error) {
	db, err := grocksdb.OpenDb(opts, path)
	if err != nil {
		return nil, native{}, statusError(err.Error())
	}
	n, err := newNative(db)
	if err != nil {
		db.Close()
		return nil, native{}, fmt.Errorf("open: %w", err)
	}
	return db, n, nil
}
