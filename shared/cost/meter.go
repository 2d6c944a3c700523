package cost

import (
	"sync"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Meter counts what one unit of work consumes. The zero value is ready to use, and a nil
// Meter counts nothing. It is safe for concurrent use.
type Meter struct {
	mu    sync.Mutex
	count workflow.Cost
}

// Take returns the count since the last Take, and resets it.
func (m *Meter) Take() workflow.Cost {
	if m == nil {
		return workflow.Cost{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.count
	m.count = workflow.Cost{}
	return c
}

// Add adds a cost to the count.
func (m *Meter) Add(c workflow.Cost) {
	if m == nil || c.IsZero() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count.Add(c)
}

// Write counts write units of a table. role is the role of the table, such as "locks".
func (m *Meter) Write(role string, units float64) {
	if units > 0 {
		m.Add(workflow.Cost{WriteUnits: map[string]float64{role: units}})
	}
}

// Read counts read units of a table. role is the role of the table, such as "locks".
func (m *Meter) Read(role string, units float64) {
	if units > 0 {
		m.Add(workflow.Cost{ReadUnits: map[string]float64{role: units}})
	}
}

// Request counts one request that was sent to DynamoDB. A retried request counts again.
func (m *Meter) Request() { m.Add(workflow.Cost{DynamoRequests: 1}) }

// QueueUnit is the payload of one billed SQS request, in bytes.
const QueueUnit = 64 << 10

// Queue counts one SQS request with a payload of that many bytes.
func (m *Meter) Queue(bytes int) {
	m.Add(workflow.Cost{QueueRequests: float64(max(1, (bytes+QueueUnit-1)/QueueUnit))})
}
