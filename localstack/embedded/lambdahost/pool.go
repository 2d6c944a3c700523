package lambdahost

import (
	"context"
	"slices"
	"sync"
	"time"
)

// maxStartsPerInvocation is how many failed starts fail the invocation that waits for
// them. AWS, too, repeats a failed start once within the invocation.
const maxStartsPerInvocation = 2

// maxBackoffDoublings limits the pause between failed starts.
const maxBackoffDoublings = 6

// submit passes v to an idle environment or queues it.
func (d *DeployedFunction) submit(v *invocation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		v.finish(nil, ErrClosed)
		return
	}
	if n := len(d.idle); n > 0 {
		e := d.idle[n-1]
		d.idle = d.idle[:n-1]
		e.assign(v)
		return
	}
	v.startsBefore = d.counts.starts.Load()
	d.pending = append(d.pending, v)
	d.scale()
}

// cancelPending removes an invocation from the queue.
func (d *DeployedFunction) cancelPending(v *invocation, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.pending, v); i >= 0 {
		d.pending = slices.Delete(d.pending, i, i+1)
		v.finish(nil, why)
	}
}

// requeue puts an invocation that no process has received at the head of the queue.
func (d *DeployedFunction) requeue(v *invocation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		v.finish(nil, ErrClosed)
		return
	}
	d.pending = slices.Insert(d.pending, 0, v)
	d.scale()
}

// recordReply is called before the caller of e's invocation gets the reply. If the
// caller invokes again at once, e will be free in a moment.
func (d *DeployedFunction) recordReply(e *environment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.replyTimes[e] = time.Now()
}

// environmentReady is called when e asks for an event: for the first time, after an
// invocation, or again after its connection broke while it waited.
func (d *DeployedFunction) environmentReady(e *environment, first, served bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if first {
		d.startingCount--
		d.lastStartErr = nil
		d.broadcast()
	}
	delete(d.replyTimes, e)
	if served {
		d.failedStarts = 0
	}
	switch {
	case !d.envs[e], len(e.assigned) > 0, slices.Contains(d.idle, e):
		return
	case len(d.pending) > 0:
		v := d.pending[0]
		d.pending = d.pending[1:]
		e.assign(v)
		return
	}
	since := time.Now()
	e.idleSince = since
	d.idle = append(d.idle, e)
	time.AfterFunc(d.host.opts.IdleTimeout, func() { d.reapIdle(e, since) })
	d.scale() // starts that were delayed after a failure
}

// reapIdle stops an environment that has been idle since the given time.
func (d *DeployedFunction) reapIdle(e *environment, since time.Time) {
	d.mu.Lock()
	i := slices.Index(d.idle, e)
	if i < 0 || !e.idleSince.Equal(since) || len(d.envs)-d.reapingCount <= d.spec.ProvisionedConcurrency {
		d.mu.Unlock()
		return
	}
	d.idle = slices.Delete(d.idle, i, i+1)
	d.reapingCount++
	e.idledOut = true
	d.mu.Unlock()
	e.terminate(context.Background())
}

// environmentExited is called once for each environment, after its process has ended.
func (d *DeployedFunction) environmentExited(end environmentExit) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := end.env
	delete(d.envs, e)
	delete(d.replyTimes, e)
	if e.idledOut {
		d.reapingCount--
	}
	d.idle = slices.DeleteFunc(d.idle, func(i *environment) bool { return i == e })
	select {
	case v := <-e.assigned: // assigned and never delivered
		if d.closed {
			v.finish(nil, ErrClosed)
		} else {
			d.pending = slices.Insert(d.pending, 0, v)
		}
	default:
	}
	if end.initErr != nil {
		d.startingCount--
		d.chargeFailedStart(e, end.initErr)
	}
	if end.initErr != nil || end.diedIdle {
		d.backOff()
	}
	d.broadcast()
	d.scale()
}

// chargeFailedStart logs a failed start and charges it to one of the invocations that
// waited when it began: the one with the fewest charges.
func (d *DeployedFunction) chargeFailedStart(e *environment, err *FunctionError) {
	if d.closed {
		return
	}
	d.lastStartErr = err
	d.host.log.logf(d.spec.Name, "environment did not start: %v", err)
	charged := -1
	for i, v := range d.pending {
		if v.startsBefore < e.seq && (charged < 0 || v.failedStarts < d.pending[charged].failedStarts) {
			charged = i
		}
	}
	if charged < 0 {
		return
	}
	v := d.pending[charged]
	if v.failedStarts++; v.failedStarts >= maxStartsPerInvocation {
		d.pending = slices.Delete(d.pending, charged, charged+1)
		v.finish(nil, err)
	}
}

// backOff delays the next start, so that a binary that exits before its first event is
// not started in a hot loop.
func (d *DeployedFunction) backOff() {
	if d.closed {
		return
	}
	pause := min(d.host.opts.Backoff<<min(d.failedStarts, maxBackoffDoublings), 50*d.host.opts.Backoff)
	d.failedStarts++
	if d.backoffTimer == nil {
		d.backoffTimer = time.AfterFunc(pause, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.backoffTimer = nil
			d.scale()
		})
	}
}

// replyTurnaround is how long a process may take from its reply to its next request
// before another process is started instead.
const replyTurnaround = 5 * time.Millisecond

// scale starts an environment for each queued invocation and the provisioned ones.
// After a failed start it starts one at a time until one has served. The caller holds
// mu.
func (d *DeployedFunction) scale() {
	if d.closed || d.backoffTimer != nil {
		return
	}
	replying := 0
	for _, since := range d.replyTimes {
		if time.Since(since) < replyTurnaround {
			replying++
		}
	}
	need := len(d.pending) - d.startingCount
	if replying > 0 && need > 0 {
		need -= replying
		time.AfterFunc(replyTurnaround, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.scale()
		})
	}
	want := max(need, d.spec.ProvisionedConcurrency-len(d.envs)+d.reapingCount)
	want = min(want, d.spec.MaxConcurrency-len(d.envs))
	if d.failedStarts > 0 {
		want = min(want, 1-d.startingCount)
	}
	for range want {
		d.startEnvironment()
	}
}

// startEnvironment starts one environment. The caller holds mu.
func (d *DeployedFunction) startEnvironment() {
	e := &environment{fn: d, assigned: make(chan *invocation, 1), exited: make(chan struct{})}
	e.seq = d.counts.starts.Add(1)
	d.envs[e] = true
	d.startingCount++
	go e.run()
}

// broadcast wakes the callers of Ready. The caller holds mu.
func (d *DeployedFunction) broadcast() {
	close(d.stateChanged)
	d.stateChanged = make(chan struct{})
}

// rejectAll fails queued and later invocations with ErrClosed.
func (d *DeployedFunction) rejectAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.backoffTimer != nil {
		d.backoffTimer.Stop()
	}
	for _, v := range d.pending {
		v.finish(nil, ErrClosed)
	}
	d.pending = nil
	d.broadcast()
}

// terminate stops all environments and returns when they have been reaped.
func (d *DeployedFunction) terminate(ctx context.Context) {
	d.mu.Lock()
	var ends sync.WaitGroup
	for e := range d.envs {
		ends.Go(func() { e.terminate(ctx) })
	}
	d.mu.Unlock()
	ends.Wait()
}
