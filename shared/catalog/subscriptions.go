package catalog

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// Subscribing is what subscriptions need besides the registry.
type Subscribing struct {
	NewID func() string
	// Seal encrypts the secret of a webhook. It is nil if there are no keys for that.
	Seal func(ctx context.Context, secret []byte) ([]byte, error)
	// Allows returns an error if a webhook must not be called.
	Allows func(url string) error
	// Age is how long processes that change executions may overlook a new subscription. Skew is how
	// far their clocks may differ.
	Age, Skew time.Duration
}

// Subscriptions lists the subscriptions of a tenant, all on one page.
func (c *Catalog) Subscriptions(ctx context.Context, caller workflow.Caller, _ workflow.Page) (list workflow.List[workflow.Subscription], err error) {
	all, err := c.openPorts().Registry.Subscriptions(ctx, caller.Tenant)
	for _, s := range all {
		if s.RemovedAt.IsZero() {
			list.Items = append(list.Items, s)
		}
	}
	return list, err
}

// Subscription reads a subscription.
func (c *Catalog) Subscription(ctx context.Context, caller workflow.Caller, name string) (workflow.Subscription, error) {
	all, err := c.openPorts().Registry.Subscriptions(ctx, caller.Tenant)
	if err != nil {
		return workflow.Subscription{}, err
	}
	if i := indexOf(all, name); i >= 0 && all[i].RemovedAt.IsZero() {
		return all[i], nil
	}
	return workflow.Subscription{}, noSubscription(name)
}

// Deliveries lists the newest deliveries of a subscription, with the result of the latest attempt
// of each.
func (c *Catalog) Deliveries(ctx context.Context, caller workflow.Caller, name string) (list workflow.List[workflow.DeliveryAttempt], err error) {
	if _, err := c.Subscription(ctx, caller, name); err != nil {
		return list, err
	}
	list.Items, err = c.openPorts().Registry.DeliveryAttempts(ctx, caller.Tenant, name)
	return list, err
}

func noSubscription(name string) error {
	return workflow.Errorf(workflow.CodeNotFound, "there is no subscription %q", name)
}

func indexOf(all []workflow.Subscription, name string) int {
	return slices.IndexFunc(all, func(s workflow.Subscription) bool { return s.Name == name })
}

// PutSubscription creates a subscription, or changes the one with that name. A webhook then gets a
// new secret, with which its requests are signed. The secret is returned here and cannot be read
// later.
//
// A new subscription is written twice; the second write sets the time of the first event that it
// receives. That time counts from after the first write, because from then on every process that
// changes executions learns of the subscription within Age.
func (c *Catalog) PutSubscription(ctx context.Context, caller workflow.Caller, name string, req views.SubscriptionRequest) (s workflow.Subscription, secret string, err error) {
	if err := c.checkSubscription(req); err != nil {
		return s, "", err
	}
	to := workflow.SubscriptionTarget{URL: req.URL, EventBus: req.EventBus, Topic: req.Topic, Workflow: req.Workflow, Text: req.Text}
	if to.URL != "" {
		if c.Subscribing.Seal == nil {
			return s, "", workflow.Errorf(workflow.CodeInvalid, "a webhook needs a secret, and there are no keys to seal it with: configure token.keys")
		}
		raw := make([]byte, 32)
		_, _ = rand.Read(raw) // never fails
		secret = base64.RawURLEncoding.EncodeToString(raw)
		if to.Secret, err = c.Subscribing.Seal(ctx, []byte(secret)); err != nil {
			return s, "", err
		}
	}
	registry := c.openPorts().Registry
	for range maxScheduleWrites {
		all, err := registry.Subscriptions(ctx, caller.Tenant)
		if err != nil {
			return s, "", err
		}
		s = workflow.Subscription{Name: name}
		if i := indexOf(all, name); i >= 0 {
			s = all[i]
		}
		if s.ID == "" || !s.RemovedAt.IsZero() {
			if n := len(slices.DeleteFunc(all, func(s workflow.Subscription) bool { return !s.RemovedAt.IsZero() })); n >= workflow.MaxSubscriptions {
				return s, "", workflow.Errorf(workflow.CodeLimit, "there are %d subscriptions, which is the limit: remove one", n)
			}
			s = workflow.Subscription{Name: name, Revision: s.Revision, ID: c.Subscribing.NewID(), CreatedAt: c.now().UTC().Truncate(time.Millisecond), CreatedBy: caller.Actor}
		}
		s.To, s.Events, s.States, s.Workflows, s.Labels = to, req.Events, req.States, req.Workflows, req.Labels
		ok, err := registry.PutSubscription(ctx, caller.Tenant, s)
		if err != nil {
			return s, "", err
		}
		if s.Revision++; ok && s.Since.IsZero() {
			s.Since = c.now().UTC().Truncate(time.Millisecond).Add(c.Subscribing.Age + 2*c.Subscribing.Skew)
			if ok, err = registry.PutSubscription(ctx, caller.Tenant, s); err != nil {
				return s, "", err
			}
			s.Revision++
		}
		if ok {
			return s, secret, nil
		}
	}
	return s, "", workflow.Contended(workflow.CodeConflict, "subscription %s", name)
}

// RemoveSubscription removes a subscription. Undelivered events are dropped.
func (c *Catalog) RemoveSubscription(ctx context.Context, caller workflow.Caller, name string) (workflow.Subscription, error) {
	return c.changeSubscription(ctx, caller, name, func(s *workflow.Subscription) bool {
		s.RemovedAt, s.To.Secret = c.now().UTC().Truncate(time.Millisecond), nil
		return true
	})
}

// ResumeSubscription lets a suspended subscription receive events again. Events that arrived in
// between are among the dead letters of the queue hooks-out.
func (c *Catalog) ResumeSubscription(ctx context.Context, caller workflow.Caller, name string) (workflow.Subscription, error) {
	return c.changeSubscription(ctx, caller, name, func(s *workflow.Subscription) bool {
		changes := s.Suspended != nil || s.Dead > 0
		s.Suspended, s.Dead = nil, 0
		return changes
	})
}

func (c *Catalog) changeSubscription(ctx context.Context, caller workflow.Caller, name string, change func(*workflow.Subscription) bool) (workflow.Subscription, error) {
	registry := c.openPorts().Registry
	for range maxScheduleWrites {
		all, err := registry.Subscriptions(ctx, caller.Tenant)
		if err != nil {
			return workflow.Subscription{}, err
		}
		i := indexOf(all, name)
		if i < 0 || !all[i].RemovedAt.IsZero() {
			return workflow.Subscription{}, noSubscription(name)
		}
		if !change(&all[i]) {
			return all[i], nil
		}
		if ok, err := registry.PutSubscription(ctx, caller.Tenant, all[i]); err != nil || ok {
			return all[i], err
		}
	}
	return workflow.Subscription{}, workflow.Contended(workflow.CodeConflict, "subscription %s", name)
}

var (
	eventPatternRE = regexp.MustCompile(`^([a-z]+(\.[a-z_]+)?|[a-z]+\.([a-z_]+)?\*|\*)$`)
	eventBusRE     = regexp.MustCompile(`^(arn:[a-z-]+:events:[a-z0-9-]+:\d{12}:event-bus/)?[A-Za-z0-9._/-]{1,256}$`)
	topicRE        = regexp.MustCompile(`^arn:[a-z-]+:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}$`)
)

// checkSubscription checks what a schema cannot express.
func (c *Catalog) checkSubscription(r views.SubscriptionRequest) error {
	var issues []workflow.Issue
	add := func(path, code, format string, args ...any) {
		issues = append(issues, workflow.Issue{Path: path, Code: code, Message: fmt.Sprintf(format, args...)})
	}
	targets := 0
	for _, t := range []string{r.URL, r.EventBus, r.Topic, r.Workflow} {
		if t != "" {
			targets++
		}
	}
	if targets != 1 {
		add("", "target", "want exactly one of url, eventBus, topic and workflow")
	}
	if r.URL != "" && c.Subscribing.Allows != nil {
		if err := c.Subscribing.Allows(r.URL); err != nil {
			add("url", "forbidden", "%s", err)
		}
	}
	if r.EventBus != "" && !eventBusRE.MatchString(r.EventBus) {
		add("eventBus", "format", "want the name or the ARN of a bus of EventBridge")
	}
	if r.Topic != "" && !topicRE.MatchString(r.Topic) {
		add("topic", "format", "want the ARN of a topic of SNS")
	}
	if _, err := workflow.ParseRef(cmp.Or(r.Workflow, "a/b")); err != nil {
		add("workflow", "format", "%s", err)
	}
	if r.Workflow != "" && len(r.States) == 0 && len(r.Events) == 0 {
		add("states", "required", "a workflow is started for each event: name states or events")
	}
	if r.Text && r.URL == "" && r.Topic == "" {
		add("text", "target", "only a webhook or a topic takes text")
	}
	for i, e := range r.Events {
		if !eventPatternRE.MatchString(e) {
			add(fmt.Sprintf("events[%d]", i), "format", "want a type such as execution.settled, or the beginning of one and a star: execution.*")
		} else if types := lifecycle.EventTypes(); !slices.ContainsFunc(types, func(t string) bool { return workflow.MatchesEventType(e, t) }) {
			add(fmt.Sprintf("events[%d]", i), "unknown_event", "no event has the type %s%s", e, workflow.DidYouMean(e, types))
		}
	}
	for i, s := range r.States {
		if !slices.Contains(statemachines.ExecutionStates(), statemachines.ExecutionState(s)) {
			add(fmt.Sprintf("states[%d]", i), "enum", "want a state of an execution, such as FAILED_UNSAFE")
		}
	}
	for i, w := range r.Workflows {
		if ref, err := workflow.ParseRef(w); err != nil || ref.Version != "" {
			add(fmt.Sprintf("workflows[%d]", i), "format", "want package/name")
		}
	}
	return workflow.Invalid("the subscription is not valid", issues)
}
