// Package enginehost makes an engine from the parts that package boot has opened. It
// gives the engine new ports for each unit of work, and its sources of time, ids and
// randomness.
package enginehost

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/engine/workers"
	"github.com/lockstep-run/lockstep/shared/sealed"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Host is a process with an engine.
type Host struct {
	*boot.Process
	Engine *engine.Engine
}

// Open opens the parts of the process and makes the engine.
func Open(ctx context.Context, component string) (*Host, error) {
	p, err := boot.Open(ctx, component)
	if err != nil {
		return nil, err
	}
	o := engine.ConfiguredOptions(p.Config, p.Endpoints)
	if os.Getenv(topology.EnvQueueEvents) != "" {
		o.SubscriptionsAge, o.CountEnds = p.Config.Observe.Age, p.Config.Observe.Metrics
		if to := p.Config.Observe.Alerts; strings.HasPrefix(to, "arn:") {
			o.Alerts.Topic = to
		} else {
			o.Alerts.URL = to
		}
	}
	o.StartsByWakeup = component == topology.FunctionObserver
	deps := engineDeps(p)
	if component == topology.FunctionAPI && p.Opener != nil { // no other takes parameters of callers
		deps.Sealer = sealed.NewSealer(p.Opener, func() sealed.Store { return p.Unmetered().Registry })
	}
	return &Host{p, engine.New(deps, o, boot.Version)}, nil
}

// LivenessTimeouts returns how long polling workers may go without a heartbeat.
func (h *Host) LivenessTimeouts() workers.LivenessTimeouts {
	w := h.Config.Worker
	return workers.LivenessTimeouts{Unreachable: w.Unreachable, Offline: w.Offline, Forget: w.Forget}
}

// Workers returns the registry of polling workers.
func (h *Host) Workers() *workers.Registry {
	return &workers.Registry{Workers: h.Unmetered().Workers, Timeouts: h.LivenessTimeouts(), Now: time.Now}
}

// MustOpen is Open for a main: an error ends the process.
func MustOpen(ctx context.Context, component string) *Host {
	h, err := Open(ctx, component)
	if err != nil {
		boot.Fatal(component, err)
	}
	return h
}

func engineDeps(p *boot.Process) engine.Deps {
	return engine.Deps{
		Now:   time.Now,
		NewID: func() string { return uuid.Must(uuid.NewV7()).String() },
		Nonce: func() string { return rand.Text()[:10] },
		Backoff: func(round int) {
			time.Sleep(mathrand.N(10 * time.Millisecond << min(round, 6)))
		},
		OpenPorts: func() port.Ports {
			v := p.Metered(workflow.Cost{})
			return port.Ports{
				Store: v.Store, Locks: v.Locks, Packs: v.Packs, Registry: v.Registry, Workers: v.Workers, Schedules: v.Registry,
				Rows: v.Rows, Sender: v.Sender, Meter: v.Meter,
			}
		},
		Log: p.Log, Tracer: p.Tracer, TokenKeys: p.TokenKeys, Secret: p.Secrets.Secret, Captcha: NewCaptchaCheck(captchaURL()),
		RecordMetric: p.RecordMetric,
	}
}
