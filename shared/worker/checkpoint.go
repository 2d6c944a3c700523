package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Checkpoint saves the job's position, under a key, as JSON. When it returns nil, the value is
// stored. If this worker is lost and another one takes the job over, or if the attempt fails and
// the job is tried again, the block finds the value in [Job.Checkpoints]. A nil value removes what
// is saved under the key.
//
// A job can save at most 64 KiB under 100 keys, and all jobs of a pack together 128 KiB: save the
// position of the job, not its output. Each call writes the pack, so call it only when it is worth
// a write, such as every few seconds. An error means that the value may not be stored. CLAIM_LOST
// means that the job no longer belongs to this worker, or is to be cancelled: stop then.
//
// The job of a block that is neither pure nor idempotent is never taken over. What it has saved is
// kept for people, and for its next attempt if it fails.
func (j *Job) Checkpoint(ctx context.Context, key string, value any) error {
	raw, err := workflow.EncodeJSON(value)
	if err != nil {
		return fmt.Errorf("worker: checkpoint %s: %w", key, err)
	}
	if issue := checkJSON(raw, "checkpoint "+key); issue != nil {
		return workflow.Invalid("the checkpoint cannot be stored", []workflow.Issue{*issue})
	}
	return j.state().add(ctx, workflow.Checkpoints{key: raw})
}

// Checkpoints returns what the job has saved, by key: in this attempt and, unless the retry policy
// says `fresh`, in earlier ones.
func (j *Job) Checkpoints() map[string]json.RawMessage {
	s := j.state()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]json.RawMessage, len(s.checkpoints))
	for key, value := range s.checkpoints {
		all[key] = value
	}
	return all
}

// LoadCheckpoint decodes what the job has saved under a key. It reports false if there is nothing.
func (j *Job) LoadCheckpoint(key string, into any) (bool, error) {
	raw, saved := j.Checkpoints()[key]
	if !saved {
		return false, nil
	}
	return true, workflow.JSONError(json.Unmarshal(raw, into))
}

// Progress reports the progress of the job to people: in percent, and in up to 200 bytes of text.
// The call only records it. The next heartbeat or other write of the job stores it, so it may be
// called at any time.
func (j *Job) Progress(percent float64, message string) {
	s := j.state()
	if s.clean != nil {
		message = s.clean.text(message)
	}
	if s.report != nil {
		s.report(percent, message)
	}
}

func (j *Job) state() *savedState {
	if j.saved == nil {
		j.saved = &savedState{} // a job in the test of a block keeps what it saves here
	}
	return j.saved
}

// savedState is what a job has saved, and how it saves more.
type savedState struct {
	save   func(ctx context.Context, all workflow.Checkpoints) error // nil: values are kept only here
	report func(percent float64, message string)
	log    func(lines ...workflow.LogLine)
	clean  *remover // removes the secrets that the job is called with

	mu          sync.Mutex // allows one call at a time
	checkpoints workflow.Checkpoints
}

// without returns the state of a job that is called with secrets, which are removed from what it
// saves.
func (s *savedState) without(secrets jobSecrets) *savedState {
	if len(secrets) > 0 {
		s.clean = secrets.remover()
	}
	return s
}

func (s *savedState) add(ctx context.Context, more workflow.Checkpoints) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clean != nil {
		more = s.clean.checkpoints(more)
	}
	all, err := s.checkpoints.With(more)
	if err == nil && s.save != nil {
		err = s.save(ctx, all)
	}
	if err == nil {
		s.checkpoints = all
	}
	return err
}

// beginSaving returns the state with which a job saves. Its record holds what was saved before,
// ever since its claim: a record without checkpoints means that the job has removed them. The
// caller holds s.mu.
func (s *session) beginSaving(i int) *savedState {
	return &savedState{
		checkpoints: s.pack.Jobs[i].Checkpoints,
		save:        func(ctx context.Context, all workflow.Checkpoints) error { return s.saveCheckpoints(ctx, i, all) },
		report:      func(percent float64, message string) { s.noteProgress(i, percent, message) },
		log:         func(lines ...workflow.LogLine) { s.noteLogs(i, lines) },
	}
}

// isRunning reports whether the job may still save something, because it runs in this session. The
// caller holds s.mu.
func (s *session) isRunning(i int) bool {
	return !s.ended && s.pack.Jobs[i].Code == workflow.JobCodeStarted
}

// saveCheckpoints writes what a job has saved, with everything else that is known about the pack,
// under the token of the claim: a worker that has lost the pack writes nothing.
func (s *session) saveCheckpoints(ctx context.Context, i int, all workflow.Checkpoints) error {
	s.mu.Lock()
	if !s.isRunning(i) {
		s.mu.Unlock()
		return errClaimLost
	}
	if err := s.pack.CheckpointsFit(i, all); err != nil {
		s.mu.Unlock()
		return err
	}
	s.pack.Jobs[i].Checkpoints = all
	unclaimed := s.unclaimed
	s.mu.Unlock()
	if unclaimed {
		return s.claimForSaving(ctx)
	}
	return s.renewLease(ctx, noJob)
}

// noteProgress records the progress of a job. The next write of the pack stores it.
func (s *session) noteProgress(i int, percent float64, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isRunning(i) {
		s.pack.Jobs[i].Progress = workflow.NewJobProgress(percent, message, s.w.opts.Now())
	}
}

// hasUnsavedProgress reports whether a job has said how far it is, or logged something, and nothing
// writes the pack because it is not claimed.
func (s *session) hasUnsavedProgress() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.unclaimed || s.cancelled {
		return false
	}
	for i := range s.pack.Jobs {
		if s.pack.Jobs[i].Progress != nil || s.pack.Jobs[i].Logs != nil {
			return true
		}
	}
	return false
}

func (s *session) isUnclaimed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unclaimed
}

// claimForSaving claims a pack of pure jobs while they run, because one of them saves something. If
// another worker has the pack, its jobs continue here unclaimed, and what they save is not stored.
func (s *session) claimForSaving(ctx context.Context) error {
	if tried, err := s.claimUnclaimed(ctx); tried || err != nil {
		return err
	}
	return s.renewLease(ctx, noJob) // another job has just claimed the pack
}

// claimUnclaimed works like claimForSaving, unless the pack is already claimed.
func (s *session) claimUnclaimed(ctx context.Context) (tried bool, err error) {
	select {
	case s.writeSlot <- struct{}{}:
		defer func() { <-s.writeSlot }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	s.mu.Lock()
	if !s.unclaimed {
		s.mu.Unlock()
		return false, nil
	}
	p := s.snapshot()
	s.mu.Unlock()
	p.Lease = s.w.opts.Now().Add(s.w.opts.LeaseDuration)
	ok, old, err := s.writePack(ctx, p, s.ports.Packs.Claim)
	if err != nil {
		return true, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case ok:
		// If there is an old pack, an earlier call has written the claim and its reply was lost;
		// this call has written nothing.
		if old != nil {
			p.Lease = old.Lease
		} else {
			s.savedCount = countEnded(p.Jobs)
		}
		s.unclaimed, s.firstClaim = false, true
		s.leaseEnd, s.pack.Lease = p.Lease, p.Lease
		if s.watchLease != nil && !s.ended {
			s.watchLease()
		}
		return old == nil, nil
	case old.Final():
		s.cancelled = true
		return true, errPackCancelled
	}
	return true, errClaimLost
}

// keptCheckpoints adds what a block has saved with its response to the checkpoints of its job in
// the pack. Checkpoints that do not fit are dropped, and the failure says so.
func keptCheckpoints(p *workflow.Pack, i int, a JobResult) JobResult {
	if len(a.Checkpoints) == 0 || a.Failure == nil {
		return a
	}
	if err := addCheckpoints(p, i, a.Checkpoints); err != nil {
		failure := *a.Failure
		failure.Message += fmt.Sprintf(" (its checkpoints were not kept: %s)", err)
		a.Failure = &failure
	}
	return a
}

// addCheckpoints adds to what a job has saved: all or nothing.
func addCheckpoints(p *workflow.Pack, i int, more workflow.Checkpoints) error {
	all, err := p.Jobs[i].Checkpoints.With(more)
	if err == nil {
		err = p.CheckpointsFit(i, all)
	}
	if err == nil {
		p.Jobs[i].Checkpoints = all
	}
	return err
}

// JobReport is what another program reports about a job that it is still running.
type JobReport struct {
	Checkpoints workflow.Checkpoints
	Progress    *workflow.JobProgress // At is ignored
	Logs        []workflow.LogLine    // that it has not reported before; without At: now
}

// recordReport adds another program's report about a running job to the job's record.
func (s *session) recordReport(i int, r JobReport, now time.Time) error {
	if err := addCheckpoints(s.pack, i, r.Checkpoints); err != nil {
		return err
	}
	if r.Progress != nil {
		s.pack.Jobs[i].Progress = workflow.NewJobProgress(r.Progress.Percent, r.Progress.Message, now)
	}
	s.addReportedLogs(i, r.Logs, now)
	return nil
}
