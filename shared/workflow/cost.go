package workflow

import "maps"

// Cost is what an execution has consumed, as the services counted it.
type Cost struct {
	WriteUnits     map[string]float64 `json:"w,omitempty"` // DynamoDB write units by table role
	ReadUnits      map[string]float64 `json:"r,omitempty"` // DynamoDB read units by table role
	DynamoRequests int                `json:"d,omitempty"` // DynamoDB requests
	QueueRequests  float64            `json:"q,omitempty"` // SQS requests, in units of 64 KB; a share of a batch is a fraction
	Invocations    float64            `json:"f,omitempty"` // function invocations; a share of a batch is a fraction
}

// Add adds o.
func (c *Cost) Add(o Cost) {
	c.WriteUnits = addUnits(c.WriteUnits, o.WriteUnits)
	c.ReadUnits = addUnits(c.ReadUnits, o.ReadUnits)
	c.DynamoRequests += o.DynamoRequests
	c.QueueRequests += o.QueueRequests
	c.Invocations += o.Invocations
}

func addUnits(a, b map[string]float64) map[string]float64 {
	if a == nil && len(b) > 0 {
		a = make(map[string]float64, len(b))
	}
	for k, v := range b {
		a[k] += v
	}
	return a
}

// Clone copies the cost and its maps.
func (c Cost) Clone() Cost {
	c.WriteUnits, c.ReadUnits = maps.Clone(c.WriteUnits), maps.Clone(c.ReadUnits)
	return c
}

// IsZero reports whether nothing was consumed.
func (c Cost) IsZero() bool {
	return len(c.WriteUnits) == 0 && len(c.ReadUnits) == 0 && c.DynamoRequests == 0 && c.QueueRequests == 0 && c.Invocations == 0
}

// TotalWriteUnits returns the sum of write units over all tables.
func (c Cost) TotalWriteUnits() float64 { return sumUnits(c.WriteUnits) }

func sumUnits(m map[string]float64) float64 {
	t := 0.0
	for _, v := range m {
		t += v
	}
	return t
}
