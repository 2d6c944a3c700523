package workflow

// Caller is who makes a request: the tenant whose data it may read, and the actor whose
// name the history records.
type Caller struct {
	Tenant        string
	Actor         string
	CorrelationID string // by which the caller recognises the effects of the request; optional
}

// Page asks for a part of a list. Token is opaque; empty asks for the first page.
type Page struct {
	Limit int
	Token string
}

// List is a part of a list. NextToken is empty on the last page. Skipped are the ids of
// executions that may belong to this part and that cannot be read, because a newer version
// of the engine wrote them.
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
