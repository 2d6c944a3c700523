package lambdahost

import (
	"context"
	"slices"
	"sync"
	"time"
)

// startsPerInvocation is how often environments may fail to start before an
// invocation that waits for them fails. AWS, too, starts one again within the
// invocation if the first start failed.
const startsPerInvocation = 2

// backoffDoublings bounds the pause between failed starts.
const backoffDoublings = 6

// submit hands v to an idle environment or makes it wait for one.
func (d *Deployed) submit(v *invocation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		v.finish(nil, ErrClosed)
		return
	}
	if n := len(d.idle); n > 0 {
		e := d.idle[n-1]
		d.idle = d.idle[:n-1]
		e.offer(v)
		return
	}
	v.after = d.counts.starts.Load()
	d.waiting = append(d.waiting, v)
	d.scale()
}

// withdraw takes back an invocation that nobody has begun.
func (d *Deployed) withdraw(v *invocation, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.waiting, v); i >= 0 {
		d.waiting = slices.Delete(d.waiting, i, i+1)
		v.finish(nil, why)
	}
}

// takeBack makes an invocation that no process has seen wait again, before all
// others.
func (d *Deployed) takeBack(v *invocation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		v.finish(nil, ErrClosed)
		return
	}
	d.waiting = slices.Insert(d.waiting, 0, v)
	d.scale()
}

// replies is called just before the caller of e's invocation gets its reply: if
// that caller comes back at once, e will be free in a moment.
func (d *Deployed) replies(e *environment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.replied[e] = time.Now()
}

// ready is called when e asks for work: for the first time, after an invocation,
// or, neither, because it has lost its connection while it waited.
func (d *Deployed) ready(e *environment, first, served bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if first {
		d.starting--
		d.lastErr = nil
		d.announce()
	}
	delete(d.replied, e)
	if served {
		d.failures = 0
	}
	switch {
	case !d.envs[e], len(e.offers) > 0, slices.Contains(d.idle, e):
		return
	case len(d.waiting) > 0:
		v := d.waiting[0]
		d.waiting = d.waiting[1:]
		e.offer(v)
		return
	}
	since := time.Now()
	e.idleSince = since
	d.idle = append(d.idle, e)
	time.AfterFunc(d.host.opts.IdleAfter, func() { d.reap(e, since) })
	d.scale() // those held back while starts failed
}

// reap ends an environment that has had no work since the given moment.
func (d *Deployed) reap(e *environment, since time.Time) {
	d.mu.Lock()
	i := slices.Index(d.idle, e)
	if i < 0 || !e.idleSince.Equal(since) || len(d.envs)-d.reaping <= d.spec.Warm {
		d.mu.Unlock()
		return
	}
	d.idle = slices.Delete(d.idle, i, i+1)
	d.reaping++
	e.reaped = true
	d.mu.Unlock()
	e.terminate(context.Background())
}

// exited is called once for each environment, when it is no more.
func (d *Deployed) exited(end ending) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := end.env
	delete(d.envs, e)
	delete(d.replied, e)
	if e.reaped {
		d.reaping--
	}
	d.idle = slices.DeleteFunc(d.idle, func(i *environment) bool { return i == e })
	select {
	case v := <-e.offers: // offered, and never taken
		if d.closed {
			v.finish(nil, ErrClosed)
		} else {
			d.waiting = slices.Insert(d.waiting, 0, v)
		}
	default:
	}
	if end.initErr != nil {
		d.starting--
		d.blame(e, end.initErr)
	}
	if end.initErr != nil || end.early {
		d.holdBack()
	}
	d.announce()
	d.scale()
}

// blame reports a failed start and charges it to one invocation among those that
// had been waiting when it began: the one that has been charged least.
func (d *Deployed) blame(e *environment, err *FunctionError) {
	if d.closed {
		return
	}
	d.lastErr = err
	d.host.log.Say(d.spec.Name, "environment did not start: %v", err)
	least := -1
	for i, v := range d.waiting {
		if v.after < e.number && (least < 0 || v.initFailures < d.waiting[least].initFailures) {
			least = i
		}
	}
	if least < 0 {
		return
	}
	v := d.waiting[least]
	if v.initFailures++; v.initFailures >= startsPerInvocation {
		d.waiting = slices.Delete(d.waiting, least, least+1)
		v.finish(nil, err)
	}
}

// holdBack puts a pause before the next start: a binary that does not start, or
// dies before it has done anything, must not be started in a hot loop.
func (d *Deployed) holdBack() {
	if d.closed {
		return
	}
	pause := min(d.host.opts.Backoff<<min(d.failures, backoffDoublings), 50*d.host.opts.Backoff)
	d.failures++
	if d.retry == nil {
		d.retry = time.AfterFunc(pause, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.retry = nil
			d.scale()
		})
	}
}

// turnaround is what a process gets from its reply to its next request before
// another is started in its stead.
const turnaround = 5 * time.Millisecond

// scale starts as many environments as invocations wait and as shall be warm.
// After a failure it tries one at a time, until one has served. Called with mu.
func (d *Deployed) scale() {
	if d.closed || d.retry != nil {
		return
	}
	turning := 0
	for _, since := range d.replied {
		if time.Since(since) < turnaround {
			turning++
		}
	}
	need := len(d.waiting) - d.starting
	if turning > 0 && need > 0 {
		need -= turning
		time.AfterFunc(turnaround, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.scale()
		})
	}
	want := max(need, d.spec.Warm-len(d.envs)+d.reaping)
	want = min(want, d.spec.MaxConcurrency-len(d.envs))
	if d.failures > 0 {
		want = min(want, 1-d.starting)
	}
	for range want {
		d.launch()
	}
}

// launch starts one environment. Called with mu.
func (d *Deployed) launch() {
	e := &environment{fn: d, offers: make(chan *invocation, 1), exited: make(chan struct{})}
	e.number = d.counts.starts.Add(1)
	d.envs[e] = true
	d.starting++
	go e.run()
}

// announce wakes those who wait in Ready. Called with mu.
func (d *Deployed) announce() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// refuse turns away what waits and what comes.
func (d *Deployed) refuse() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.retry != nil {
		d.retry.Stop()
	}
	for _, v := range d.waiting {
		v.finish(nil, ErrClosed)
	}
	d.waiting = nil
	d.announce()
}

// terminate ends all environments and returns when they have been reaped.
func (d *Deployed) terminate(ctx context.Context) {
	d.mu.Lock()
	var ends sync.WaitGroup
	for e := range d.envs {
		ends.Go(func() { e.terminate(ctx) })
	}
	d.mu.Unlock()
	ends.Wait()
}
