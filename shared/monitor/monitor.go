package monitor

import (
	"embed"
	"io/fs"
	"net/http"
)

//go:embed page
var files embed.FS

// contentSecurityPolicy lets the page load its own files and call its own service, no more.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves the page at / and its files under /monitor/.
func Handler() http.Handler {
	page, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // the folder is embedded: this cannot happen in a binary that was built
	}
	mux := http.NewServeMux()
	fileServer := http.FileServerFS(page)
	mux.Handle("GET /{$}", fileServer)
	mux.Handle("GET /monitor/", http.StripPrefix("/monitor/", fileServer))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentSecurityPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		// The files bear no tags and are small: whoever asks on a condition or for a
		// part gets the whole, instead of statuses that nobody has promised.
		r = r.Clone(r.Context())
		for _, name := range []string{"If-Match", "If-None-Match", "If-Range", "Range"} {
			r.Header.Del(name)
		}
		mux.ServeHTTP(w, r)
	})
}
