package workflow

// Caller is who asks: the tenant whose things may be seen and the actor whose
// name goes into the history.
type Caller struct {
	Tenant        string
	Actor         string
	CorrelationID string // by which the caller recognises what comes of the request; optional
}

// Page asks for a part of a list. Token is opaque to the asker; empty asks for
// the first page.
type Page struct {
	Limit int
	Token string
}

// List is a part of a list. Next is empty on the last page.
type List[T any] struct {
	Items     []T
	NextToken string
}

// MaxPageSize and DefaultPageSize bound [Page.Limit].
const (
	MaxPageSize     = 1000
	DefaultPageSize = 100
)
