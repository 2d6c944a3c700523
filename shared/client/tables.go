package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Tables lists the tables that pipes fill, in order of name.
func (c *Client) Tables(ctx context.Context) iter.Seq2[views.TableView, error] {
	return paginate[views.TableView](ctx, c, nil, "tables")
}

// Table returns one table.
func (c *Client) Table(ctx context.Context, name string) (views.TableView, error) {
	return get[views.TableView](ctx, c, "tables", name)
}

// PutTable creates a table, or changes the table with that name: columns can be added.
func (c *Client) PutTable(ctx context.Context, name string, req views.TableRequest) (views.TableView, error) {
	return do[views.TableView](ctx, c, request{method: http.MethodPut, path: route("tables", name), body: req})
}

// Rows lists the rows of a table for which a condition is true, or all, those of the oldest
// execution first. With after, they are those that follow the row with that id.
func (c *Client) Rows(ctx context.Context, name, where, after string) iter.Seq2[views.RowView, error] {
	query := url.Values{}
	set(query, "where", where)
	set(query, "after", after)
	return paginate[views.RowView](ctx, c, query, "tables", name, "rows")
}

// TableDeliveries lists the newest failed deliveries of rows of a table, newest first.
func (c *Client) TableDeliveries(ctx context.Context, name string) ([]workflow.DeliveryAttempt, error) {
	list, err := get[struct{ Items []workflow.DeliveryAttempt }](ctx, c, "tables", name, "deliveries")
	return list.Items, err
}

// RetryRows retries the rows that the table rejected.
func (c *Client) RetryRows(ctx context.Context, name, why string) (views.RowsRetry, error) {
	return post[views.RowsRetry](ctx, c, reason{why}, "tables", name, "retry")
}
