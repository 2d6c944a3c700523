// Package monitor has the web pages of the service, static files that are embedded in the
// binary: the monitor, and the page on which the bearer of a token answers. They read all their
// data through the HTTP API, like any other client. They run under a strict content security
// policy: no inline script or style, nothing from other hosts. They set all data as text, never as
// markup. `make generate` builds the files from the sources in app.
//
// It is a package of its own because the embedded files and their content security policy
// belong together, and no other part of the service needs them.
package monitor

import (
	"embed"
	"io/fs"
	"net/http"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

//go:embed page
var files embed.FS

// contentSecurityPolicy lets the page load only its own files and call only its own service.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves the monitor at /, the page of answers at /answer, and their files under /monitor/.
func Handler() http.Handler {
	page, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // the folder is embedded, so this cannot happen
	}
	mux := http.NewServeMux()
	fileServer := http.FileServerFS(page)
	mux.Handle("GET /{$}", fileServer)
	mux.HandleFunc("GET "+workflow.AnswerPage, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, page, "answer.html") })
	mux.Handle("GET /monitor/", http.StripPrefix("/monitor/", fileServer))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentSecurityPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		// The files are small and have no ETags: a conditional or a range request gets
		// the whole file, so that the API document need not list 206, 304 and 416.
		r = r.Clone(r.Context())
		for _, name := range []string{"If-Match", "If-None-Match", "If-Range", "Range"} {
			r.Header.Del(name)
		}
		mux.ServeHTTP(w, r)
	})
}
