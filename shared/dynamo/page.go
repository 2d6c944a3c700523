package dynamo

import (
	"encoding/base64"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// pageBytes bounds a page by what its items weigh, besides their number.
const pageBytes = 1 << 20

// pageLimit is how many items a page may have.
func pageLimit(p workflow.Page) int {
	if p.Limit <= 0 {
		return workflow.DefaultPageSize
	}
	return min(p.Limit, workflow.MaxPageSize)
}

// A token is the sort key of the last item of the page before.
func encodePageToken(sk string) string { return base64.RawURLEncoding.EncodeToString([]byte(sk)) }

func decodePageToken(p workflow.Page) (sk string, err error) {
	b, err := base64.RawURLEncoding.DecodeString(p.Token)
	if err != nil || len(b) > 1024 {
		return "", workflow.Errorf(workflow.CodeInvalid, "the page token is not one of ours")
	}
	return string(b), nil
}

// startKeyAfter is where a query begins that goes on after a sort key.
func startKeyAfter(pk, sk string) table.Item {
	if sk == "" {
		return nil
	}
	return table.Key{PK: pk, SK: sk}.Attributes()
}

// collectPage makes one page of rows. It looks one row further, so that the last page
// says that it is the last.
func collectPage[T any](rows table.Rows, limit int, decode func(table.Item) (T, error)) (workflow.List[T], error) {
	var list workflow.List[T]
	size, last := 0, ""
	for it, err := range rows {
		if err != nil {
			return workflow.List[T]{}, err
		}
		if len(list.Items) == limit || (size > 0 && size+it.Size() > pageBytes) {
			list.NextToken = encodePageToken(last)
			break
		}
		one, err := decode(it)
		if err != nil {
			return workflow.List[T]{}, err
		}
		list.Items = append(list.Items, one)
		size += it.Size()
		last = it.Key().SK
	}
	return list, nil
}
