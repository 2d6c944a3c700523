package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// loggedText is what a job has logged, as text.
func loggedText(l *workflow.JobLogs) string {
	if l == nil {
		return ""
	}
	text := fmt.Sprint(l.Dropped, " dropped")
	for _, line := range l.Lines {
		text += fmt.Sprintf("; %s %s", line.Level, line.Text)
	}
	return text
}

// F38: what a job logs is stored with its end, whether it succeeds or fails, and each attempt has its own.
func TestJobLog_IsKeptWithTheJob(t *testing.T) {
	for _, kind := range kinds {
		for _, fails := range []bool{false, true} {
			r := newFixture(t)
			m := r.newMessage(kind, 0, 1, 1)
			r.blockFunc = func(_ context.Context, job *worker.Job) (map[string]int, error) {
				job.Log(slog.LevelDebug-4, "begins\n")
				r.Advance(time.Second)
				job.Log(slog.LevelWarn, "odd")
				job.Log(slog.LevelError+4, "bad")
				if fails {
					return nil, worker.Terminal("STOP", errors.New("stop"))
				}
				return nil, nil
			}
			began := r.Now()
			r.mustHandle(r.worker(), m)
			logs := r.pack(m.Key).Jobs[0].Logs
			if got := loggedText(logs); got != "0 dropped; DEBUG begins; WARN odd; ERROR bad" {
				t.Errorf("%s: logged %s", kind, got)
			}
			if took := logs.Lines[1].At.Sub(logs.Lines[0].At); took != time.Second || logs.Lines[0].At.Before(began.Truncate(time.Millisecond)) {
				t.Errorf("%s: the lines are of %+v, the job began at %s", kind, logs.Lines, began)
			}
		}
	}
}

// What a job logs is stored with the next heartbeat, and costs no write of its own. Pure jobs, which
// nobody claims, are claimed then.
func TestJobLog_ComesWithTheHeartbeat(t *testing.T) {
	for _, kind := range kinds {
		synctest.Test(t, func(t *testing.T) {
			r := newFixture(t)
			m := r.newMessage(kind, 0, 1, 1)
			m.NotAfter = time.Now().Add(time.Hour)
			r.blockFunc = func(_ context.Context, job *worker.Job) (map[string]int, error) {
				for n := range 50 {
					job.Log(slog.LevelInfo, fmt.Sprintf("port %d", n))
					time.Sleep(time.Second)
				}
				return nil, nil
			}
			ports := r.ports()
			counted := &extendCounter{Packs: ports.Packs}
			ports.Packs = counted
			go func() {
				time.Sleep(30 * time.Second)
				if logs := r.pack(m.Key).Jobs[0].Logs; logs == nil || len(logs.Lines) < 20 || len(logs.Lines) > 21 {
					t.Errorf("%s: after 30 s %s", kind, loggedText(logs))
				}
			}()
			if _, err := r.worker(concurrent).Handle(context.Background(), m, ports); err != nil {
				t.Fatal(err)
			}
			if counted.writes > 2 {
				t.Errorf("%s: %d writes of 50 s of work, want one each 20 s", kind, counted.writes)
			}
			if logs := r.pack(m.Key).Jobs[0].Logs; logs == nil || len(logs.Lines) != 50 {
				t.Errorf("%s: at its end %s", kind, loggedText(logs))
			}
		})
	}
}

// A job keeps the end of what it logs, its share of the pack, and says how many lines are missing.
func TestJobLog_IsBounded(t *testing.T) {
	for _, jobs := range []int{1, 12, 100} {
		r := newFixture(t)
		m := r.newMessage(idempotent, 0, 1, jobs)
		r.blockFunc = func(_ context.Context, job *worker.Job) (map[string]int, error) {
			for n := range 1000 {
				job.Log(slog.LevelInfo, fmt.Sprintf("line %03d", n))
			}
			job.Log(slog.LevelInfo, strings.Repeat("ü", 2000)) // 4,000 bytes
			return nil, nil
		}
		r.mustHandle(r.worker(), m)
		p, total := r.pack(m.Key), 0
		share := min(8<<10, (96<<10)/jobs)
		for _, rec := range p.Jobs {
			last := rec.Logs.Lines[len(rec.Logs.Lines)-1].Text
			if rec.Logs.Bytes() > share || len(rec.Logs.Lines)+rec.Logs.Dropped != 1001 {
				t.Fatalf("%d jobs: %d bytes of a share of %d, %d lines and %d dropped", jobs, rec.Logs.Bytes(), share, len(rec.Logs.Lines), rec.Logs.Dropped)
			}
			if want := min(2<<10, share-40); len(last) > want || len(last) < want-4 || !strings.HasSuffix(last, "ü…") {
				t.Fatalf("%d jobs: the long line has %d bytes and ends with %q", jobs, len(last), last[len(last)-5:])
			}
			total += rec.Logs.Bytes()
		}
		if total > 96<<10 {
			t.Errorf("%d jobs: %d bytes", jobs, total)
		}
		if jobs == 1 && !strings.HasSuffix(p.Jobs[0].Logs.Lines[len(p.Jobs[0].Logs.Lines)-2].Text, "line 999") {
			t.Errorf("the last lines are %+v", p.Jobs[0].Logs.Lines)
		}
	}
}

// No job fails for what it logs: results leave the item first, and then the logs do.
func TestJobLog_LeavesRoomForEverythingElse(t *testing.T) {
	for _, updates := range []int{100 << 10, 250 << 10} {
		r := newFixture(t)
		m := r.newMessage(idempotent, 0, 1, 1)
		r.blockFunc = func(_ context.Context, job *worker.Job) (map[string]int, error) {
			for n := range 1000 {
				job.Log(slog.LevelInfo, fmt.Sprintf("line %03d", n))
			}
			return map[string]int{"n": 7}, job.SetAttribute("big", strings.Repeat("x", updates))
		}
		r.mustHandle(r.worker(), m)
		rec := r.pack(m.Key).Jobs[0]
		if rec.Code != workflow.JobCodeOK || rec.Failure != nil || len(rec.Result) == 0 && rec.ResultRef == nil {
			t.Errorf("%d bytes of updates: %+v", updates, rec)
		}
		if kept := len(rec.Logs.Lines) > 0; kept != (updates == 100<<10) || len(rec.Logs.Lines)+rec.Logs.Dropped != 1000 {
			t.Errorf("%d bytes of updates: %d lines, %d dropped", updates, len(rec.Logs.Lines), rec.Logs.Dropped)
		}
	}
}

// No value of a secret stands in a log, whoever writes the line, even where the line is cut.
func TestJobLog_HoldsNoSecret(t *testing.T) {
	const secret = "correct horse battery"
	r := newFixture(t)
	m := r.newMessage(idempotent, 0, 9, 1)
	m.Jobs[0].Parameters = json.RawMessage(`{"password":"${secret.login}"}`)
	m.Work.Secrets = []workflow.SecretPlace{{Path: []string{"password"}, Parts: []workflow.SecretPart{{Secret: "login"}}}}
	secrets := func(o *worker.Options) { o.Secrets = oneSecret(secret) }
	r.blockFunc = func(_ context.Context, job *worker.Job) (map[string]int, error) {
		job.Log(slog.LevelInfo, "as "+secret)
		job.Log(slog.LevelInfo, strings.Repeat("x", 2040)+secret)
		return nil, nil
	}
	r.mustHandle(r.worker(secrets), m)
	endpoint := r.newMessage(idempotent, 1, 9, 1)
	endpoint.Jobs[0].Parameters, endpoint.Work.Secrets = m.Jobs[0].Parameters, m.Work.Secrets
	endpoint.Work.HTTP = &workflow.Endpoint{URL: "http://127.0.0.1"}
	r.mustHandle(r.worker(secrets, func(o *worker.Options) {
		o.HTTPBlocks = callFunc(func(context.Context, *workflow.Endpoint, *worker.Job) worker.JobResult {
			return worker.JobResult{Outcome: sm.OutcomeOK, Logs: []workflow.LogLine{{Level: workflow.LogInfo, Text: "as " + secret}}}
		})
	}), endpoint)
	for _, key := range []workflow.PackKey{m.Key, endpoint.Key} {
		raw, _ := json.Marshal(r.pack(key).Jobs)
		if text := string(raw); strings.Contains(text, "correct") || !strings.Contains(text, `"as ${secret.login}"`) {
			t.Errorf("logged %s", raw)
		}
	}
}

type callFunc func(context.Context, *workflow.Endpoint, *worker.Job) worker.JobResult

func (f callFunc) Call(ctx context.Context, e *workflow.Endpoint, j *worker.Job) worker.JobResult {
	return f(ctx, e, j)
}

// What was logged of a job stays with it when another worker takes it over.
func TestJobLog_IsThereAfterATakeover(t *testing.T) {
	for _, kind := range []string{idempotent, nonIdempotent} {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 9, 1)
		r.blockFunc = func(ctx context.Context, job *worker.Job) (map[string]int, error) {
			job.Log(slog.LevelInfo, "first")
			if err := job.Checkpoint(ctx, "at", 1); err != nil {
				t.Fatal(err)
			}
			panic("the process dies")
		}
		func() {
			defer func() { _ = recover() }()
			_, _, _ = r.handle(r.worker(), m)
		}()
		r.Advance(pastLease)
		r.blockFunc = func(_ context.Context, job *worker.Job) (map[string]int, error) {
			job.Log(slog.LevelInfo, "second")
			return nil, nil
		}
		r.mustHandle(r.worker(), m)
		want := map[string]string{idempotent: "0 dropped; INFO first; INFO second", nonIdempotent: "0 dropped; INFO first"}[kind]
		if got := loggedText(r.pack(m.Key).Jobs[0].Logs); got != want {
			t.Errorf("%s: logged %s, want %s", kind, got, want)
		}
	}
}

// Workers that poll log with their heartbeats and with their results. A line that says when it was
// written is kept once, however often it is sent.
func TestRemoteLease_KeepsLogs(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(nonIdempotent, 0, 9, 1)
	first := r.leaseRemote(m)
	at := r.Now().Add(-time.Second)
	report := worker.JobReport{Logs: []workflow.LogLine{{At: at, Level: workflow.LogInfo, Text: "one"}, {Level: workflow.LogWarn, Text: "two"}}}
	for range 2 {
		if _, _, err := r.resumeRemote(m, &worker.RemoteResult{Heartbeat: true, Reports: map[string]worker.JobReport{first.Jobs[0].ID: report}}); err != nil {
			t.Fatal(err)
		}
	}
	r.wantEnded(m, &worker.RemoteResult{Results: map[string]worker.JobResult{first.Jobs[0].ID: {
		Outcome: sm.OutcomeOK, Updates: json.RawMessage(`{}`), Logs: []workflow.LogLine{{At: at, Level: workflow.LogInfo, Text: "one"}, {Level: workflow.LogError, Text: "three"}},
	}}})
	rec := r.pack(m.Key).Jobs[0]
	if got := loggedText(rec.Logs); got != "0 dropped; INFO one; WARN two; WARN two; ERROR three" || rec.Failure == nil {
		t.Errorf("logged %s: %+v", got, rec)
	}
	if !slices.IsSortedFunc(rec.Logs.Lines, func(a, b workflow.LogLine) int { return a.At.Compare(b.At) }) || !rec.Logs.Lines[0].At.Equal(at.Truncate(time.Millisecond)) {
		t.Errorf("%+v", rec.Logs.Lines)
	}
}

// A report that comes twice, and has more lines than are kept, leaves the last ones.
func TestRemoteLease_KeepsTheEndOfALongLog(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(nonIdempotent, 0, 9, 1)
	first := r.leaseRemote(m)
	var report worker.JobReport
	for i := range 1000 {
		report.Logs = append(report.Logs, workflow.LogLine{At: r.Now().Add(time.Duration(i-1000) * time.Millisecond), Level: workflow.LogInfo, Text: fmt.Sprintf("line %03d", i)})
	}
	for range 2 {
		if _, _, err := r.resumeRemote(m, &worker.RemoteResult{Heartbeat: true, Reports: map[string]worker.JobReport{first.Jobs[0].ID: report}}); err != nil {
			t.Fatal(err)
		}
	}
	l := r.pack(m.Key).Jobs[0].Logs
	if n := len(l.Lines); n < 100 || l.Lines[n-1].Text != "line 999" || l.Lines[0].Text != fmt.Sprintf("line %03d", 1000-n) || l.Dropped != 1000-n {
		t.Errorf("%d lines from %q to %q, %d dropped", n, l.Lines[0].Text, l.Lines[n-1].Text, l.Dropped)
	}
}

// In a pack of many jobs a line is cut to the share of its job: a report that comes twice is still kept once.
func TestRemoteLease_KeepsACutLineOnce(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(nonIdempotent, 0, 9, 100)
	first := r.leaseRemote(m)
	report := worker.JobReport{Logs: []workflow.LogLine{{At: r.Now().Add(-time.Second), Level: workflow.LogInfo, Text: strings.Repeat("x", 1500)}, {At: r.Now(), Level: workflow.LogInfo, Text: strings.Repeat("y", 3000)}}}
	for range 2 {
		if _, _, err := r.resumeRemote(m, &worker.RemoteResult{Heartbeat: true, Reports: map[string]worker.JobReport{first.Jobs[0].ID: report}}); err != nil {
			t.Fatal(err)
		}
	}
	if l := r.pack(m.Key).Jobs[0].Logs; len(l.Lines) != 1 || l.Dropped != 1 || l.Bytes() > (96<<10)/100 {
		t.Errorf("%d lines, %d dropped, %d bytes", len(l.Lines), l.Dropped, l.Bytes())
	}
}
