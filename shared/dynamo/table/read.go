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
	return it, it.checkSchema()
}

const (
	batchKeys        = 100 // BatchGetItem takes no more
	batchConcurrency = 8   // batches of one call in flight at a time
)

// GetMany reads items by key; absent ones are left out, keys may repeat. only,
// if given, names the attributes to return.
func (t *Table) GetMany(ctx context.Context, keys []Key, consistent bool, projection ...string) (map[Key]Item, error) {
	byKey := make(map[Key]Item, len(keys))
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
	err := parallel.Each(ctx, batchConcurrency, batches, func(ctx context.Context, i int) error {
		items, err := t.getBatch(ctx, distinct[i*batchKeys:min(len(distinct), (i+1)*batchKeys)], consistent, projection)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, it := range items {
			if err := it.checkSchema(); err != nil {
				return err
			}
			byKey[it.Key()] = it
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return byKey, nil
}

// getBatch reads one batch. What the service leaves unprocessed is asked for again
// after a pause; only answers without any progress count as tries.
func (t *Table) getBatch(ctx context.Context, keys []Key, strong bool, only []string) ([]Item, error) {
	want := types.KeysAndAttributes{ConsistentRead: &strong}
	for _, k := range keys {
		want.Keys = append(want.Keys, k.Attributes())
	}
	if len(only) > 0 {
		projection := "#pk, #sk"
		for _, name := range only {
			projection += ", #" + name
		}
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

// Query asks for the items of one partition, of the table or of an index, in
// order of their sort key.
type Query struct {
	KeyCondition string // condition in the notation of [Change], on the partition and perhaps the sort key
	Values       Item
	Index        string // empty is the table
	Consistent   bool   // never with an index
	Descending   bool
	StartAfter   Item     // the keys, all that the index has, of the item behind which to begin; nil is the beginning
	PageSize     int      // items read at a time; 0 leaves it to the service
	Projection   []string // attributes to return besides the keys; all if empty
}

// Query reads lazily, a page at a time: who stops early has paid for no more
// than the pages begun.
func (t *Table) Query(ctx context.Context, q Query) Rows {
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
			projection = "#pk, #sk"
			for _, name := range q.Projection {
				projection += ", #" + name
			}
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
				it := Item(found)
				if !yield(it, it.checkSchema()) {
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
