package cost

import (
	"sync"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Meter counts what one piece of work consumes. The zero value is ready; a nil
// Meter counts nothing. It is safe for concurrent use.
type Meter struct {
	mu    sync.Mutex
	count workflow.Cost
}

// Take returns the count since the last Take and starts anew.
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

// Add counts what is already known as a cost.
func (m *Meter) Add(c workflow.Cost) {
	if m == nil || c.IsZero() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count.Add(c)
}

// Write counts write units of a table, by its role.
func (m *Meter) Write(role string, units float64) {
	if units > 0 {
		m.Add(workflow.Cost{WriteUnits: map[string]float64{role: units}})
	}
}

// Read counts read units of a table, by its role.
func (m *Meter) Read(role string, units float64) {
	if units > 0 {
		m.Add(workflow.Cost{ReadUnits: map[string]float64{role: units}})
	}
}

// Request counts one request to DynamoDB, as it was sent: an attempt that was
// repeated counts again.
func (m *Meter) Request() { m.Add(workflow.Cost{DynamoRequests: 1}) }

// QueueUnit is the payload that one billed SQS request carries.
const QueueUnit = 64 << 10

// Queue counts one request to SQS that carried so many bytes.
func (m *Meter) Queue(bytes int) {
	m.Add(workflow.Cost{QueueRequests: float64(max(1, (bytes+QueueUnit-1)/QueueUnit))})
}
