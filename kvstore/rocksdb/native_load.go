//go:build cgo

package rocksdb

/*
#include <stdint.h>
#include <stdlib.h>
#include "rocksdb/c.h"

// An entry of a chunk's index, as Go's entry. at is where its batch entry
// begins; 0 means that a later entry of the key wins.
typedef struct {
	uint64_t prefix;
	uint32_t at;
	uint32_t klen;
} wicker_entry;

static const char* wicker_varint(const char* p, size_t* v) {
	size_t r = 0;
	for (int shift = 0;; shift += 7) {
		unsigned char c = (unsigned char)*p++;
		r |= (size_t)(c & 0x7f) << shift;
		if (c < 0x80) break;
	}
	*v = r;
	return p;
}

typedef struct {
	uint64_t bytes; // of keys and values
	uint64_t size;  // of the file
	char*    err;
} wicker_table_result;

// wicker_add adds entries, sorted, to a table file.
static char* wicker_add(rocksdb_sstfilewriter_t* w, const char* base,
		const wicker_entry* e, size_t n, uint64_t* bytes) {
	char* err = NULL;
	for (size_t i = 0; i < n && err == NULL; i++) {
		if (i + 8 < n) {
			const char* ahead = base + e[i + 8].at;
			__builtin_prefetch(ahead);
			__builtin_prefetch(ahead + 64);
			__builtin_prefetch(ahead + 128);
			__builtin_prefetch(ahead + 192);
		}
		if (e[i].at == 0) continue;
		const char* p = base + e[i].at;
		char tag = *p++;
		size_t klen, vlen;
		const char* key = p = wicker_varint(p, &klen);
		p += klen;
		*bytes += klen;
		if (tag == 0) {
			rocksdb_sstfilewriter_delete(w, key, klen, &err);
			continue;
		}
		p = wicker_varint(p, &vlen);
		*bytes += vlen;
		rocksdb_sstfilewriter_put(w, key, klen, p, vlen, &err);
	}
	return err;
}

// wicker_table writes first and then second, each sorted, to a table file.
static wicker_table_result wicker_table(rocksdb_options_t* options, const char* path, const char* base,
		const wicker_entry* first, size_t nfirst, const wicker_entry* second, size_t nsecond) {
	wicker_table_result r = {0, 0, NULL};
	rocksdb_envoptions_t* env = rocksdb_envoptions_create();
	rocksdb_sstfilewriter_t* w = rocksdb_sstfilewriter_create(env, options);
	rocksdb_sstfilewriter_open(w, path, &r.err);
	if (r.err == NULL) r.err = wicker_add(w, base, first, nfirst, &r.bytes);
	if (r.err == NULL) r.err = wicker_add(w, base, second, nsecond, &r.bytes);
	if (r.err == NULL) rocksdb_sstfilewriter_finish(w, &r.err);
	if (r.err == NULL) rocksdb_sstfilewriter_file_size(w, &r.size);
	rocksdb_sstfilewriter_destroy(w);
	rocksdb_envoptions_destroy(env);
	return r;
}

// wicker_ingest makes the files part of the database, all or none.
static char* wicker_ingest(rocksdb_t* db, const char* const* paths, size_t n) {
	char* err = NULL;
	rocksdb_ingestexternalfileoptions_t* o = rocksdb_ingestexternalfileoptions_create();
	rocksdb_ingestexternalfileoptions_set_move_files(o, 1);
	// Nobody scans meanwhile.
	rocksdb_ingestexternalfileoptions_set_snapshot_consistency(o, 0);
	rocksdb_ingest_external_file(db, paths, n, o, &err);
	rocksdb_ingestexternalfileoptions_destroy(o);
	return err;
}

#cgo noescape wicker_table
#cgo nocallback wicker_table
#cgo nocallback wicker_ingest
*/
import "C"

import (
	"errors"
	"reflect"
	"unsafe"

	"github.com/linxGnu/grocksdb"
)

// optionsHandle finds the handle in grocksdb's Options, which does not export it.
func optionsHandle(o *grocksdb.Options) (*C.rocksdb_options_t, error) {
	f := reflect.ValueOf(o).Elem().FieldByName("c")
	if !f.IsValid() || f.Kind() != reflect.Pointer || f.IsNil() {
		return nil, errors.New("this version of grocksdb keeps its options elsewhere than v1.7.15 does")
	}
	return (*C.rocksdb_options_t)(f.UnsafePointer()), nil
}

// table writes first and then second, sorted entries of a chunk, to a table file at
// path. It returns the bytes of their keys and values, and of the file.
func table(o *grocksdb.Options, path string, body []byte, first, second []entry) (bytes, size int64, err error) {
	options, err := optionsHandle(o)
	if err != nil {
		return 0, 0, err
	}
	p := C.CString(path)
	defer C.free(unsafe.Pointer(p))
	base, _ := chars(body)
	one, none := entries(first)
	two, ntwo := entries(second)
	r := C.wicker_table(options, p, base, one, none, two, ntwo)
	return int64(r.bytes), int64(r.size), failure(r.err)
}

func entries(e []entry) (*C.wicker_entry, C.size_t) {
	return (*C.wicker_entry)(unsafe.Pointer(unsafe.SliceData(e))), C.size_t(len(e))
}

// ingest makes table files part of the database, all or none, and removes them
// from where they are.
func (n *native) ingest(paths []string) error {
	list := make([]*C.char, len(paths))
	for i, p := range paths {
		list[i] = C.CString(p)
		defer C.free(unsafe.Pointer(list[i]))
	}
	return failure(C.wicker_ingest(n.db, &list[0], C.size_t(len(list))))
}
