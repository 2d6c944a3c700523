package table

import (
	"context"
	"iter"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockstep-run/lockstep/shared/parallel"
)

// Get reads one item, strongly consistent; nil if absent.
func (t *Table) Get(ctx context.Context, key Key) (Item, error) {
	var it Item
	err := t.retry(ctx, func(ctx context.Context) error {
		out, err := t.client.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: &t.name, Key: key.Attributes(), ConsistentRead: aws.Bool(true),
		}, t.options)
		if err != nil {
			return err
		}
		it = out.Item
		return nil
	})
	if err != nil || len(it) == 0 {
		return nil, err
	}
	return it, it.CheckSchema()
}

const (
	batchKeys        = 100 // the most that BatchGetItem accepts
	batchConcurrency = 8   // batches of one call in flight at a time
)

// GetMany reads items by key; it leaves out absent ones, and keys may repeat. projection, if given,
// names the attributes to return besides the keys.
func (t *Table) GetMany(ctx context.Context, keys []Key, consistent bool, projection ...string) (map[Key]Item, error) {
	byKey := make(map[Key]Item, len(keys))
	err := t.GetEach(ctx, keys, consistent, func(it Item) error {
		if err := it.CheckSchema(); err != nil {
			return err
		}
		byKey[it.Key()] = it
		return nil
	}, projection...)
	if err != nil {
		return nil, err
	}
	return byKey, nil
}

// GetEach works like GetMany, for many large items: it calls read with each item, one at a time and
// in no particular order, and keeps none. read must refuse items of a newer version, see
// [Item.CheckSchema].
func (t *Table) GetEach(ctx context.Context, keys []Key, consistent bool, read func(Item) error, projection ...string) error {
	var distinct []Key
	seen := make(map[Key]bool, len(keys))
	for _, k := range keys {
		if !seen[k] {
			seen[k] = true
			distinct = append(distinct, k)
		}
	}
	var mu sync.Mutex
	batches := (len(distinct) + batchKeys - 1) / batchKeys
	return parallel.Each(ctx, batchConcurrency, batches, func(ctx context.Context, i int) error {
		items, err := t.getBatch(ctx, distinct[i*batchKeys:min(len(distinct), (i+1)*batchKeys)], consistent, projection)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, it := range items {
			if err := read(it); err != nil {
				return err
			}
		}
		return nil
	})
}

// getBatch reads one batch. It asks again, after a pause, for the keys that DynamoDB leaves
// unprocessed; only responses without any item count as attempts.
func (t *Table) getBatch(ctx context.Context, keys []Key, consistent bool, attributes []string) ([]Item, error) {
	want := types.KeysAndAttributes{ConsistentRead: &consistent}
	for _, k := range keys {
		want.Keys = append(want.Keys, k.Attributes())
	}
	if len(attributes) > 0 {
		projection := projectionOf(attributes)
		want.ProjectionExpression, want.ExpressionAttributeNames = &projection, attributeNames(projection)
	}
	var items []Item
	for try := 0; ; try++ {
		var out *dynamodb.BatchGetItemOutput
		err := t.retry(ctx, func(ctx context.Context) (err error) {
			out, err = t.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
				RequestItems: map[string]types.KeysAndAttributes{t.name: want},
			}, t.options)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, it := range out.Responses[t.name] {
			items = append(items, it)
			try = 0
		}
		unprocessed, remaining := out.UnprocessedKeys[t.name]
		if !remaining || len(unprocessed.Keys) == 0 {
			return items, nil
		}
		if try+1 >= maxAttempts {
			return nil, t.unavailable(errUnprocessed)
		}
		if err := backoff(ctx, try); err != nil {
			return nil, t.unavailable(err)
		}
		want = unprocessed
	}
}

// Query asks for the items of one partition, of the table or of an index, ordered by sort key.
type Query struct {
	KeyCondition string // in the notation of [Update], on the partition key and optionally the sort key
	Values       Item
	Index        string // "" is the table
	Consistent   bool   // never with an index
	Descending   bool
	StartAfter   Item     // all keys of the table and the index of the item to start after; nil starts at the first
	PageSize     int      // items read at a time; 0 leaves it to DynamoDB
	Projection   []string // attributes to return besides the keys; all if empty
}

// projectionOf returns the projection expression for some attributes and the keys.
func projectionOf(attributes []string) string {
	projection := "#pk, #sk"
	for _, name := range attributes {
		projection += ", #" + name
	}
	return projection
}

// Rows are the items that a query returns.
type Rows = iter.Seq2[Item, error]

// Query reads lazily, a page at a time: a caller that stops early pays only for the
// pages that were read.
func (t *Table) Query(ctx context.Context, q Query) Rows {
	return func(yield func(Item, error) bool) {
		for it, err := range t.queryRaw(ctx, q) {
			if err == nil {
				err = it.CheckSchema()
			}
			if !yield(it, err) {
				return
			}
		}
	}
}

// queryRaw works like Query, but does not check the schema versions of the items.
func (t *Table) queryRaw(ctx context.Context, q Query) Rows {
	return func(yield func(Item, error) bool) {
		in := &dynamodb.QueryInput{
			TableName:                 &t.name,
			KeyConditionExpression:    &q.KeyCondition,
			ExpressionAttributeValues: attributeValues(q.Values),
			ScanIndexForward:          aws.Bool(!q.Descending),
			IndexName:                 stringOrNil(q.Index),
		}
		if q.Consistent {
			in.ConsistentRead = aws.Bool(true)
		}
		if q.PageSize > 0 {
			in.Limit = aws.Int32(int32(min(q.PageSize, 10000)))
		}
		if len(q.StartAfter) > 0 {
			in.ExclusiveStartKey = q.StartAfter
		}
		projection := ""
		if len(q.Projection) > 0 {
			projection = projectionOf(q.Projection)
			in.ProjectionExpression = &projection
		}
		in.ExpressionAttributeNames = attributeNames(q.KeyCondition, projection)
		for {
			var out *dynamodb.QueryOutput
			err := t.retry(ctx, func(ctx context.Context) (err error) {
				out, err = t.client.Query(ctx, in, t.options)
				return err
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, found := range out.Items {
				if !yield(found, nil) {
					return
				}
			}
			if len(out.LastEvaluatedKey) == 0 {
				return
			}
			in.ExclusiveStartKey = out.LastEvaluatedKey
		}
	}
}

// Merge merges several ordered results into one. It reads their first pages in parallel and ends at
// the first error.
func Merge(ctx context.Context, less func(a, b Item) bool, parts []Rows) Rows {
	type part struct {
		next func() (Item, error, bool)
		stop func()
		head Item
		err  error
		more bool
	}
	return func(yield func(Item, error) bool) {
		streams := make([]part, len(parts))
		for i := range streams {
			streams[i].next, streams[i].stop = iter.Pull2(parts[i])
			defer streams[i].stop()
		}
		advance := func(p *part) { p.head, p.err, p.more = p.next() }
		err := parallel.Each(ctx, len(streams), len(streams), func(_ context.Context, i int) error {
			advance(&streams[i])
			return nil
		})
		if err != nil {
			yield(nil, err)
			return
		}
		for {
			var first *part
			for i := range streams {
				p := &streams[i]
				if p.err != nil {
					yield(nil, p.err)
					return
				}
				if p.more && (first == nil || less(p.head, first.head)) {
					first = p
				}
			}
			if first == nil || !yield(first.head, nil) {
				return
			}
			advance(first)
		}
	}
}
