package enginehost

import (
	"context"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	ebtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sns"

	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/worker/httpblock"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Receivers sends events to webhooks, buses and topics.
type Receivers struct {
	hooks  *httpblock.Client
	buses  *eventbridge.Client
	topics *sns.Client
}

var _ engine.Receivers = (*Receivers)(nil)

// NewReceivers makes the clients. Webhooks must be on the allow list of HTTP blocks.
func NewReceivers(p *boot.Process) *Receivers {
	return &Receivers{httpblock.New(AllowedHosts(p)), eventbridge.NewFromConfig(p.AWS), sns.NewFromConfig(p.AWS)}
}

// AllowedHosts returns the hosts that HTTP blocks and webhooks may use.
func AllowedHosts(p *boot.Process) []string {
	allow := p.Config.Worker.AllowHosts
	if len(allow) == 0 && os.Getenv(topology.EnvTrustHeaders) == "true" {
		allow = []string{httpblock.Loopback} // on a local stack they are on this machine
	}
	return httpblock.WithoutOwn(allow, boot.OwnAddresses())
}

// Post sends a request to a webhook.
func (r *Receivers) Post(ctx context.Context, url string, header map[string]string, body []byte) (int, error) {
	status, err := r.hooks.Post(ctx, url, header, body)
	if err != nil {
		return 0, workflow.Errorf(workflow.CodeUnavailable, "the webhook cannot be called: %w", err)
	}
	return status, nil
}

// source is the source of events on a bus.
const source = "lockstep"

// maxBusEntries is the limit of one request of EventBridge.
const maxBusEntries = 10

// PutEvents puts all entries on a bus.
func (r *Receivers) PutEvents(ctx context.Context, bus string, entries []engine.BusEntry) error {
	for len(entries) > 0 {
		n := min(len(entries), maxBusEntries)
		in := &eventbridge.PutEventsInput{}
		for _, e := range entries[:n] {
			in.Entries = append(in.Entries, ebtypes.PutEventsRequestEntry{
				EventBusName: &bus, Source: aws.String(source), DetailType: aws.String(e.Type), Detail: aws.String(string(e.Detail)), Time: aws.Time(e.At),
			})
		}
		out, err := r.buses.PutEvents(ctx, in)
		if err != nil {
			return workflow.Errorf(workflow.CodeUnavailable, "the bus %s cannot be called: %w", bus, err)
		}
		for _, one := range out.Entries {
			if one.ErrorCode != nil {
				return workflow.Errorf(workflow.CodeUnavailable, "the bus %s has refused %d of %d events: %s", bus, out.FailedEntryCount, n, aws.ToString(one.ErrorCode))
			}
		}
		entries = entries[n:]
	}
	return nil
}

// Publish sends a message to a topic.
func (r *Receivers) Publish(ctx context.Context, topic, subject, message string) error {
	if _, err := r.topics.Publish(ctx, &sns.PublishInput{TopicArn: &topic, Subject: &subject, Message: &message}); err != nil {
		return workflow.Errorf(workflow.CodeUnavailable, "the topic %s cannot be called: %w", topic, err)
	}
	return nil
}
