package workflow

// Caller is who asks: the tenant whose things may be seen and the actor whose
// name goes into the history.
type Caller struct {
	Tenant      string
	Actor       string
	Correlation string // by which the caller recognises what comes of the request; optional
}

// Page asks for a part of a list. Token is opaque to the asker; empty asks for
// the first page.
type Page struct {
	Limit int
	Token string
}

// List is a part of a list. Next is empty on the last page.
type List[T any] struct {
	Items []T
	Next  string
}

// MaxPage and DefaultPage bound [Page.Limit].
const (
	MaxPage     = 1000
	DefaultPage = 100
)
