package ports_test

import (
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A page of rows reads about what it shows, although each of the partitions of a table may have as many
// rows as the page holds.
func TestDynamo_PageOfRowsReadsLittleMore(t *testing.T) {
	t.Parallel()
	m, tenant, at := new(cost.Meter), uuid.NewString(), time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	rows := openView(&faultInjector{}, m).Rows
	random := rand.NewChaCha8([32]byte{1})
	for i := range 400 {
		more := make([]byte, 2250) // which cannot be compressed
		_, _ = random.Read(more)
		values := json.RawMessage(`{"x":"` + base64.StdEncoding.EncodeToString(more) + `"}`)
		if err := rows.PutRow(t.Context(), tenant, "t", workflow.Row{ID: workflow.RowID("0190", 1, i, 0), At: at, Values: values}, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	m.Take()
	list, err := rows.Rows(t.Context(), tenant, "t", workflow.Page{Limit: 40})
	if err != nil || len(list.Items) != 40 || list.NextToken == "" {
		t.Fatal(len(list.Items), list.NextToken, err)
	}
	var units float64
	for _, u := range m.Take().ReadUnits {
		units += u
	}
	if units == 0 || units > 45 { // 40 rows of 3 KB are about 12 units, eight times as many 100
		t.Errorf("a page of 40 rows reads %v units", units)
	}
	t.Logf("%v units", units)
}
