package ports

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// pollReceipts is the part of a workerapi.Packs that keeps what polls are answered with.
type pollReceipts interface {
	PollReceipt(ctx context.Context, a workflow.PollAttempt) (*workflow.PollReceipt, error)
	SavePollReceipt(ctx context.Context, a workflow.PollAttempt, seen string, next workflow.PollReceipt) (ok bool, err error)
}

// Polls checks the receipts of polls.
func Polls(t *testing.T, open Open) {
	receipt := func(n int) workflow.PollReceipt {
		raw := make([]byte, n)
		r := rand.New(rand.NewPCG(uint64(n), 1))
		for i := range raw {
			raw[i] = byte(r.Uint32())
		}
		return workflow.PollReceipt{Version: uuid.NewString(), Receipt: raw, ExpiresAt: time.UnixMilli(1_800_000_000_000).UTC()}
	}
	attempt := func() workflow.PollAttempt {
		return workflow.PollAttempt{Tenant: "t-" + uuid.NewString(), Worker: "w1", ID: "a1"}
	}
	wantStored := func(s *fixture, polls pollReceipts, a workflow.PollAttempt, want *workflow.PollReceipt) {
		s.Helper()
		got, err := polls.PollReceipt(s.ctx, a)
		if err != nil {
			s.Fatal(err)
		}
		if got != nil && want != nil && bytes.Equal(got.Receipt, want.Receipt) {
			got.Receipt, want.Receipt = nil, nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			s.Errorf("%.500s", diff)
		}
	}
	runParallel(t, open, map[string]func(s *fixture){
		"a receipt replaces the one that was seen": func(s *fixture) {
			polls, a := s.Claims.(pollReceipts), attempt()
			wantStored(s, polls, a, nil)
			first, second, third := receipt(100), receipt(700<<10), receipt(0) // larger than an item; none
			s.wantApplied(true)(polls.SavePollReceipt(s.ctx, a, "", first))
			s.wantApplied(false)(polls.SavePollReceipt(s.ctx, a, "", second))
			s.wantApplied(true)(polls.SavePollReceipt(s.ctx, a, first.Version, second))
			s.wantApplied(false)(polls.SavePollReceipt(s.ctx, a, first.Version, third))
			wantStored(s, polls, a, &second)
			s.wantApplied(true)(polls.SavePollReceipt(s.ctx, a, second.Version, third))
			wantStored(s, polls, a, &workflow.PollReceipt{Version: third.Version, ExpiresAt: third.ExpiresAt})
			other := a
			other.Worker = "w2"
			wantStored(s, polls, other, nil)
		},
		"a lost reply is recognised": func(s *fixture) {
			polls, a, one := s.Claims.(pollReceipts), attempt(), receipt(10)
			s.loseReply()
			s.wantApplied(true)(polls.SavePollReceipt(s.ctx, a, "", one))
			wantStored(s, polls, a, &one)
		},
		"one of many concurrent requests succeeds": func(s *fixture) {
			polls, a := s.Claims.(pollReceipts), attempt()
			all := make([]workflow.PollReceipt, racers)
			won := s.oneWinner(func(i int) (bool, error) {
				all[i] = receipt(i + 1)
				return polls.SavePollReceipt(s.ctx, a, "", all[i])
			})
			wantStored(s, polls, a, &all[won])
		},
	})
}
