package dynamo

import (
	"context"
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// pageBytes bounds the size of a page's items; [pageLimit] bounds their number.
const pageBytes = 1 << 20

// pageLimit returns how many items a page may have.
func pageLimit(p workflow.Page) int {
	if p.Limit <= 0 {
		return workflow.DefaultPageSize
	}
	return min(p.Limit, workflow.MaxPageSize)
}

// encodePageToken makes a token for the place after which the next page starts: a sort key, or the
// keys of an index.
func encodePageToken(after string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(after))
}

func decodePageToken(p workflow.Page) (after string, err error) {
	b, err := base64.RawURLEncoding.DecodeString(p.Token)
	if err != nil || len(b) > 1024 {
		return "", invalidPageToken()
	}
	return string(b), nil
}

func invalidPageToken() error {
	return workflow.Errorf(workflow.CodeInvalid, "the page token is invalid: start again at the first page")
}

// partitionQuery asks for the items of a partition after a sort key; "" starts at the first. It
// reads one item more than the page has, so that the last page is known to be the last.
func partitionQuery(pk, after string, limit int) table.Query {
	q := table.Query{KeyCondition: "#pk = :pk", Values: table.Item{"pk": table.S(pk)}, PageSize: limit + 1, Consistent: true}
	if after != "" {
		q.StartAfter = table.Key{PK: pk, SK: after}.Attributes()
	}
	return q
}

// collectPage makes a page from the first rows, ordered by sort key.
func collectPage[T any](rows table.Rows, limit int, decode func(table.Item) (T, error)) (workflow.List[T], error) {
	return collect(rows, limit, decode, func(it table.Item) string { return it.Key().SK })
}

func collect[T any](rows table.Rows, limit int, decode func(table.Item) (T, error), place func(table.Item) string) (workflow.List[T], error) {
	var list workflow.List[T]
	var last table.Item
	size := 0
	for it, err := range rows {
		if err != nil {
			return workflow.List[T]{}, err
		}
		if len(list.Items) == limit || (size > 0 && size+it.Size() > pageBytes) {
			list.NextToken = encodePageToken(place(last))
			break
		}
		one, err := decode(it)
		if err != nil {
			return workflow.List[T]{}, err
		}
		list.Items = append(list.Items, one)
		size += it.Size()
		last = it
	}
	return list, nil
}

// filter leaves out the rows for which keep is false.
func filter(rows table.Rows, keep func(table.Item) bool) table.Rows {
	return func(yield func(table.Item, error) bool) {
		for it, err := range rows {
			if (err != nil || keep(it)) && !yield(it, err) {
				return
			}
		}
	}
}

// listDue lists what one shard of an index has due from since (zero for any time)
// to now, the longest due first.
func listDue[T any](ctx context.Context, t *table.Table, index topology.Index, shard int, since, now time.Time, page workflow.Page, decode func(table.Item) T) (workflow.List[T], error) {
	from := table.Millis(since)
	if from > now.UnixMilli() {
		return workflow.List[T]{}, nil // DynamoDB refuses a BETWEEN whose bounds are the wrong way round
	}
	startAfter, err := dueStartKey(index, shard, page)
	if err != nil {
		return workflow.List[T]{}, err
	}
	limit := pageLimit(page)
	rows := t.Query(ctx, table.Query{
		Index:        index.Name,
		KeyCondition: "#" + index.Partition + " = :shard AND #" + index.Sort + " BETWEEN :since AND :now",
		Values:       table.Item{"shard": table.S(strconv.Itoa(shard)), "since": table.N(from), "now": table.Float(float64(now.UnixMilli()) + unlistedFraction)},
		StartAfter:   startAfter,
		PageSize:     limit + 1,
	})
	return collect(rows, limit, func(it table.Item) (T, error) { return decode(it), nil }, func(it table.Item) string {
		return strconv.FormatFloat(it.Float(index.Sort), 'f', -1, 64) + " " + it.Key().PK + " " + it.Key().SK
	})
}

// dueStartKey returns where a page of [listDue] starts. No partition key contains a space.
func dueStartKey(index topology.Index, shard int, page workflow.Page) (table.Item, error) {
	if page.Token == "" {
		return nil, nil
	}
	text, err := decodePageToken(page)
	parts := strings.SplitN(text, " ", 3)
	if err != nil || len(parts) != 3 {
		return nil, invalidPageToken()
	}
	due, err := strconv.ParseFloat(parts[0], 64)
	if err != nil || math.IsNaN(due) || math.IsInf(due, 0) {
		return nil, invalidPageToken()
	}
	after := table.Key{PK: parts[1], SK: parts[2]}.Attributes()
	after[index.Partition], after[index.Sort] = table.S(strconv.Itoa(shard)), table.Float(due)
	return after, nil
}
