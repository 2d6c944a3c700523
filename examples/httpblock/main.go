// Command httpblock serves a function block over HTTP with only the standard library, as
// a program in any language could. docs/http-blocks.md describes the requests and the
// responses; block.json registers the block.
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"sync"
	"time"
)

// blockCall is the part of a request that this block reads.
type blockCall struct {
	Operation string `json:"operation"` // EXECUTE, or ROLLBACK
	Entity    struct {
		ID string `json:"id"`
	} `json:"entity"`
	Parameters struct {
		Banner string `json:"banner"`
	} `json:"parameters"`
	Result *struct { // of the job to roll back; null if it has none
		Former string `json:"former"`
	} `json:"result"`
	Fence string `json:"fence"`
}

// bannerServer simulates devices. For each it keeps the banner and the highest fence
// seen, and the answer to each Idempotency-Key.
type bannerServer struct {
	mu      sync.Mutex
	banner  map[string]string
	fence   map[string]string
	answers map[string]any
}

func (b *bannerServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var c blockCall
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(b.answer(r.Header.Get("Idempotency-Key"), c)); err != nil {
		log.Print(err)
	}
}

func (b *bannerServer) answer(key string, c blockCall) any {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a, repeated := b.answers[key]; repeated {
		return a // the same job again gets the same answer and changes nothing
	}
	if c.Fence < b.fence[c.Entity.ID] {
		return failure("STALE", "a job with a higher fence has been here")
	}
	b.fence[c.Entity.ID] = c.Fence
	former := b.banner[c.Entity.ID]
	switch {
	case c.Operation == "EXECUTE":
		b.banner[c.Entity.ID] = c.Parameters.Banner
	case c.Operation == "ROLLBACK" && c.Result != nil:
		b.banner[c.Entity.ID] = c.Result.Former
	case c.Operation != "ROLLBACK":
		return failure("UNKNOWN_OPERATION", c.Operation)
	}
	b.answers[key] = map[string]any{"outcome": "OK", "result": map[string]string{"former": former}}
	return b.answers[key]
}

// failure returns an error that is not retryable.
func failure(code, message string) any {
	return map[string]any{"outcome": "ERROR", "error": map[string]any{"code": code, "message": message, "retryable": false}}
}

func newBannerServer() *bannerServer {
	return &bannerServer{banner: map[string]string{}, fence: map[string]string{}, answers: map[string]any{}}
}

func main() {
	mux := http.NewServeMux()
	mux.Handle("POST /set_banner", newBannerServer())
	s := &http.Server{Addr: "127.0.0.1:8080", Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(s.ListenAndServe())
}
