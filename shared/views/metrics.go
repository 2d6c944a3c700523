package views

// MetricsSummary counts how executions have ended, by workflow.
type MetricsSummary struct {
	From     string `json:"from"`    // first day, in UTC
	Through  string `json:"through"` // last day
	Counting bool   `json:"counting"`
	Complete bool   `json:"complete"` // false: there are more than one request counts, those of older days

	DurationBounds []int64           `json:"durationBounds"` // upper bounds of the durations, in seconds; the last duration has none
	Workflows      []WorkflowMetrics `json:"workflows"`
}

// WorkflowMetrics counts the ends of the executions of a workflow.
type WorkflowMetrics struct {
	Workflow string          `json:"workflow"` // package/name
	Count    int             `json:"count"`
	Ends     EndCounts       `json:"ends"`
	Partial  int             `json:"partial"` // of those that completed, those of which not everything succeeded
	Seconds  DurationSummary `json:"seconds"`

	Durations []int `json:"durations"` // how many took at most each of the bounds, and more than the one before
}

// EndCounts counts ends by the state.
type EndCounts struct {
	Completed    int `json:"COMPLETED"`
	FailedSafe   int `json:"FAILED_SAFE"`
	FailedUnsafe int `json:"FAILED_UNSAFE"`
	Cancelled    int `json:"CANCELLED"`
}

// DurationSummary sums durations up, in seconds.
type DurationSummary struct {
	Sum    float64 `json:"sum"`
	Max    float64 `json:"max"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
}
