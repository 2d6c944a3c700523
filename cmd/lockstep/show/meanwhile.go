package show

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// quiet is for how long nothing needs to be said of something that takes time.
const quiet = 2 * time.Second

// Meanwhile says every two seconds that something is still being done, until stop
// is called; of what is quick, nothing.
func Meanwhile(out io.Writer, what string) (stop func()) {
	return meanwhile(out, what, quiet)
}

func meanwhile(out io.Writer, what string, every time.Duration) (stop func()) {
	over, done := make(chan struct{}), make(chan struct{})
	began := time.Now()
	go func() {
		defer close(done)
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				fmt.Fprintf(out, "note: still %s, for %ds\n", what, int(time.Since(began).Seconds()))
			case <-over:
				return
			}
		}
	}()
	var once sync.Once
	return func() {
		once.Do(func() { close(over) })
		<-done // nothing is said behind what follows
	}
}
