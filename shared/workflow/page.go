package workflow

import "strings"

// Caller is who makes a request: the tenant whose data it may read, and the actor whose name the
// history records.
type Caller struct {
	Tenant        string
	Actor         string
	Roles         string // comma-separated; they decide who may answer
	CorrelationID string // by which the caller recognises the effects of the request; optional
}

// MaxRolesBytes bounds the roles of a caller.
const MaxRolesBytes = 4 << 10

// RoleNames returns the roles of the caller. Only commas separate them: a member of the group
// "platform admin" does not have the role admin.
func (c Caller) RoleNames() []string {
	var names []string
	for name := range strings.SplitSeq(c.Roles, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Order is the order of a list by id, which is that of creation.
type Order int

// The orders.
const (
	OrderNewest Order = iota // the newest first
	OrderOldest
)

// Before reports whether an id comes before another in a list of this order.
func (o Order) Before(a, b string) bool {
	if o == OrderOldest {
		return a < b
	}
	return a > b
}

// Compare compares ids by their places in a list of this order.
func (o Order) Compare(a, b string) int {
	if o == OrderOldest {
		return strings.Compare(a, b)
	}
	return strings.Compare(b, a)
}

// Page asks for a part of a list. Token is opaque; empty asks for the first page.
type Page struct {
	Limit int
	Token string
	After string // of rows: id that the first page follows
}

// List is a part of a list. NextToken is empty on the last page. Skipped are the ids of executions
// that may belong to this part but cannot be read, or not in full: a newer version of the engine wrote
// them, or their stored outcomes are lost.
type List[T any] struct {
	Items     []T
	NextToken string
	Skipped   []string
}

// MaxPageSize and DefaultPageSize bound [Page.Limit].
const (
	MaxPageSize     = 1000
	DefaultPageSize = 100
)
