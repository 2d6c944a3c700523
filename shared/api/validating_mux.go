package api

import (
	"net/http"
	"strings"
)

// validatingMux puts the guard before every handler that is registered with it.
type validatingMux struct {
	*routes
	mux *http.ServeMux
}

// HandleFunc is what the generated code registers routes with.
func (g *validatingMux) HandleFunc(pattern string, handle func(http.ResponseWriter, *http.Request)) {
	op := g.doc.Operations[strings.TrimSuffix(pattern, "{$}")]
	if op == nil {
		panic("no such route in the document: " + pattern)
	}
	g.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if !op.Public {
			if _, err := g.identify(r); err != nil {
				g.writeError(w, r, err)
				return
			}
		}
		if !op.Planned {
			if err := op.Validate(w, r); err != nil {
				g.writeError(w, r, err)
				return
			}
		}
		handle(w, r)
	})
}

// ServeHTTP makes guarded what the generated code takes for a mux.
func (g *validatingMux) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.mux.ServeHTTP(w, r) }
