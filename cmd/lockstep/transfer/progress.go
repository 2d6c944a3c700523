package transfer

import (
	"fmt"
	"io"
	"time"
)

// progressInterval is for how long nothing needs to be said.
const progressInterval = 2 * time.Second

// progress says now and then how far something is that takes longer.
type progress struct {
	out  io.Writer
	now  func() time.Time
	last time.Time
}

func newProgress(out io.Writer, now func() time.Time) *progress {
	return &progress{out, now, now()}
}

// report says how many there are so far, if it has been quiet for long enough.
func (p *progress) report(what string, n int) {
	if now := p.now(); now.Sub(p.last) >= progressInterval {
		p.last = now
		fmt.Fprintf(p.out, "note: %d %s\n", n, what)
	}
}
