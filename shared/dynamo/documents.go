package dynamo

import (
	"bytes"
	"context"
	"maps"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// encodeDocument returns v as compressed JSON, the value of [attrDocument].
func encodeDocument(v any) (table.Value, error) {
	plain, err := workflow.EncodeJSON(v)
	if err != nil {
		return nil, table.EncodeError(err)
	}
	return table.B(table.Deflate.Compress(plain)), nil
}

// decodeDocument reads an item's [attrDocument].
func decodeDocument(it table.Item, into any) error {
	plain, err := table.Deflate.Decompress(it.Bytes(attrDocument))
	if err != nil {
		return err
	}
	return table.DecodeStrict(plain, into)
}

// putDocument writes an item that holds only a document.
func putDocument(ctx context.Context, t *table.Table, key table.Key, doc table.Value) error {
	it := key.Attributes()
	it[attrDocument] = doc
	_, _, err := t.Put(ctx, it, "", nil)
	return err
}

// putRevised writes an item with a document of a revision, and the attributes in more, if the item
// still has the previous revision, or is absent if this is the first one. If it is not written,
// same reports whether the item already has this document because an earlier call wrote it and its
// reply was lost.
func putRevised(ctx context.Context, t *table.Table, key table.Key, revision int64, document any, more table.Item) (ok, same bool, err error) {
	doc, err := encodeDocument(document)
	if err != nil {
		return false, false, err
	}
	it := key.Attributes()
	maps.Copy(it, more)
	it[attrDocument], it[attrVersion] = doc, table.N(revision)
	condition, values := table.IfAbsent, table.Item(nil)
	if seen := revision - 1; seen > 0 {
		condition, values = "#version = :seen", table.Item{"seen": table.N(seen)}
	}
	ok, old, err := t.Put(ctx, it, condition, values)
	return ok, err == nil && !ok && bytes.Equal(old.Bytes(attrDocument), it.Bytes(attrDocument)), err
}

// listDocuments reads the documents of all items of a partition, strongly consistent.
func listDocuments[T any](ctx context.Context, t *table.Table, partition string, pageSize int) (list []T, err error) {
	for it, err := range t.Query(ctx, partitionQuery(partition, "", pageSize)) {
		if err != nil {
			return nil, err
		}
		var document T
		if err := decodeDocument(it, &document); err != nil {
			return nil, err
		}
		list = append(list, document)
	}
	return list, nil
}

// chunkConcurrency is how many chunks are read or written at a time.
const chunkConcurrency = 8

// putChunks writes n chunks, compressed, each in an item of its own. It asks for a chunk only when
// it is about to write it.
func putChunks(ctx context.Context, t *table.Table, n int, key func(i int) table.Key, chunk func(i int) ([]byte, error)) error {
	return parallel.Each(ctx, chunkConcurrency, n, func(ctx context.Context, i int) error {
		plain, err := chunk(i)
		if err != nil {
			return table.EncodeError(err)
		}
		return putDocument(ctx, t, key(i), table.B(table.Deflate.Compress(plain)))
	})
}

// getChunks reads the items of n chunks and calls read with each, in any order and
// in parallel. what names the chunked value in the error about a missing chunk.
func getChunks(ctx context.Context, t *table.Table, what string, n int, key func(i int) table.Key, read func(i int, it table.Item) error) error {
	return parallel.Each(ctx, chunkConcurrency, n, func(ctx context.Context, i int) error {
		it, err := t.Get(ctx, key(i))
		if err != nil {
			return err
		}
		if it == nil {
			return workflow.Errorf(workflow.CodeNotFound, "chunk %d of %s is missing", i+1, what)
		}
		return read(i, it)
	})
}
