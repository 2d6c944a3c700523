package table

import (
	"context"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockstep-run/lockstep/shared/parallel"
)

// Get is a strongly consistent read of one item; nil if absent.
func (t *Table) Get(ctx context.Context, key Key) (Item, error) {
	var it Item
	err := t.repeat(ctx, func(ctx context.Context) error {
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
	return it, it.readable()
}

const (
	batchKeys   = 100 // BatchGetItem takes no more
	batchFlight = 8   // batches of one call in flight at a time
)

// GetMany reads items by key; absent ones are left out, keys may repeat. only,
// if given, names the attributes to return.
func (t *Table) GetMany(ctx context.Context, keys []Key, strong bool, only ...string) (map[Key]Item, error) {
	found := make(map[Key]Item, len(keys))
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
	err := parallel.Each(ctx, batchFlight, batches, func(ctx context.Context, i int) error {
		items, err := t.batch(ctx, distinct[i*batchKeys:min(len(distinct), (i+1)*batchKeys)], strong, only)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, it := range items {
			if err := it.readable(); err != nil {
				return err
			}
			found[it.Key()] = it
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// batch reads one batch. What the service leaves unprocessed is asked for again
// after a pause; only answers without any progress count as tries.
func (t *Table) batch(ctx context.Context, keys []Key, strong bool, only []string) ([]Item, error) {
	want := types.KeysAndAttributes{ConsistentRead: &strong}
	for _, k := range keys {
		want.Keys = append(want.Keys, k.Attributes())
	}
	if len(only) > 0 {
		projection := "#pk, #sk"
		for _, name := range only {
			projection += ", #" + name
		}
		want.ProjectionExpression, want.ExpressionAttributeNames = &projection, names(projection)
	}
	var items []Item
	for try := 0; ; try++ {
		var out *dynamodb.BatchGetItemOutput
		err := t.repeat(ctx, func(ctx context.Context) (err error) {
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
		rest, left := out.UnprocessedKeys[t.name]
		if !left || len(rest.Keys) == 0 {
			return items, nil
		}
		if try+1 >= tries {
			return nil, t.unavailable(errUnprocessed)
		}
		if err := pause(ctx, try); err != nil {
			return nil, t.unavailable(err)
		}
		want = rest
	}
}

// Query asks for the items of one partition, of the table or of an index, in
// order of their sort key.
type Query struct {
	Key      string // condition in the notation of [Change], on the partition and perhaps the sort key
	With     Item
	Index    string // empty is the table
	Strong   bool   // never with an index
	Backward bool
	After    Item     // the keys, all that the index has, of the item behind which to begin; nil is the beginning
	Page     int      // items read at a time; 0 leaves it to the service
	Only     []string // attributes to return besides the keys; all if empty
}

// Query reads lazily, a page at a time: who stops early has paid for no more
// than the pages begun.
func (t *Table) Query(ctx context.Context, q Query) Rows {
	return func(yield func(Item, error) bool) {
		in := &dynamodb.QueryInput{
			TableName:                 &t.name,
			KeyConditionExpression:    &q.Key,
			ExpressionAttributeValues: placeholders(q.With),
			ScanIndexForward:          aws.Bool(!q.Backward),
			IndexName:                 optional(q.Index),
		}
		if q.Strong {
			in.ConsistentRead = aws.Bool(true)
		}
		if q.Page > 0 {
			in.Limit = aws.Int32(int32(min(q.Page, 10000)))
		}
		if len(q.After) > 0 {
			in.ExclusiveStartKey = q.After
		}
		projection := ""
		if len(q.Only) > 0 {
			projection = "#pk, #sk"
			for _, name := range q.Only {
				projection += ", #" + name
			}
			in.ProjectionExpression = &projection
		}
		in.ExpressionAttributeNames = names(q.Key, projection)
		for {
			var out *dynamodb.QueryOutput
			err := t.repeat(ctx, func(ctx context.Context) (err error) {
				out, err = t.client.Query(ctx, in, t.options)
				return err
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, found := range out.Items {
				it := Item(found)
				if !yield(it, it.readable()) {
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
