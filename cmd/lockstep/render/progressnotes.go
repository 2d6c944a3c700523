package render

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// noteInterval is for how long nothing needs to be said of something that takes time.
const noteInterval = 2 * time.Second

// StartProgressNotes says every two seconds that something is still being done, until stop
// is called; of what is quick, nothing.
func StartProgressNotes(out io.Writer, what string) (stop func()) {
	return startProgressNotes(out, what, noteInterval)
}

func startProgressNotes(out io.Writer, what string, every time.Duration) (stop func()) {
	stopped, done := make(chan struct{}), make(chan struct{})
	began := time.Now()
	go func() {
		defer close(done)
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				fmt.Fprintf(out, "note: still %s, for %ds\n", what, int(time.Since(began).Seconds()))
			case <-stopped:
				return
			}
		}
	}()
	var once sync.Once
	return func() {
		once.Do(func() { close(stopped) })
		<-done // nothing is said behind what follows
	}
}
