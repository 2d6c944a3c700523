package api

import (
	"net/http"
	"strings"
)

// guarded puts the guard before every handler that is registered with it.
type guarded struct {
	*routes
	mux *http.ServeMux
}

// HandleFunc is what the generated code registers routes with.
func (g *guarded) HandleFunc(pattern string, handle func(http.ResponseWriter, *http.Request)) {
	op := g.doc.Operations[strings.TrimSuffix(pattern, "{$}")]
	if op == nil {
		panic("no such route in the document: " + pattern)
	}
	g.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if !op.Open {
			if _, err := g.identify(r); err != nil {
				g.fail(w, r, err)
				return
			}
		}
		if !op.Planned {
			if err := op.Judge(w, r); err != nil {
				g.fail(w, r, err)
				return
			}
		}
		handle(w, r)
	})
}

// ServeHTTP makes guarded what the generated code takes for a mux.
func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.mux.ServeHTTP(w, r) }
