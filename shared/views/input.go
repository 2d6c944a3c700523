package views

import (
	"encoding/json"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// InputView is an open question of an execution to people.
type InputView struct {
	Execution string          `json:"execution"`
	Workflow  workflow.Ref    `json:"workflow"` // exact
	Step      string          `json:"step"`     // label
	Visit     int             `json:"visit"`    // run of the step
	Title     *string         `json:"title"`
	Schema    json.RawMessage `json:"schema"` // of an answer; null accepts any value
	Show      json.RawMessage `json:"show"`
	Who       WhoView         `json:"who"`
	Approval  bool            `json:"approval"` // the first rejection decides
	Need      int             `json:"need"`     // how many people have to answer
	Level     int             `json:"level"`    // how often it was escalated
	Answers   []AnswerView    `json:"answers"`  // so far
	Tokens    []TokenInfo     `json:"tokens"`   // tokens that were made, oldest first
	Since     time.Time       `json:"since"`
	Until     time.Time       `json:"until"` // its deadline
}

// TokenInfo is what is known about a token that was made.
type TokenInfo struct {
	By        string              `json:"by"` // who has made it
	For       string              `json:"for"`
	At        time.Time           `json:"at"`
	ExpiresAt *time.Time          `json:"expiresAt"`
	State     workflow.TokenState `json:"state"`
}

// TokenStateView is what has become of a token of an execution. It does not have the token.
type TokenStateView struct {
	Step      string              `json:"step"`  // label
	Visit     int                 `json:"visit"` // which run of the step
	By        string              `json:"by"`    // who has made it
	For       string              `json:"for"`
	At        time.Time           `json:"at"`
	ExpiresAt *time.Time          `json:"expiresAt"`
	State     workflow.TokenState `json:"state"`
}

// TokenView is a token that was made.
type TokenView struct {
	Token     string     `json:"token"`
	URL       *string    `json:"url"` // page on which its bearer answers; nil if no address is configured
	Execution string     `json:"execution"`
	Step      string     `json:"step"`
	Visit     int        `json:"visit"`
	For       string     `json:"for"`
	ExpiresAt *time.Time `json:"expiresAt"`
}

// QuestionView is the question to the bearer of a token.
type QuestionView struct {
	Step      string          `json:"step"`
	For       string          `json:"for"` // the name under which the answer counts
	Title     *string         `json:"title"`
	Schema    json.RawMessage `json:"schema"` // of an answer; null accepts any value
	Show      json.RawMessage `json:"show"`
	Approval  bool            `json:"approval"`
	Until     time.Time       `json:"until"`     // its deadline
	ExpiresAt *time.Time      `json:"expiresAt"` // of the token
}

// TokenReceipt names the step that has accepted the answer of a token's bearer.
type TokenReceipt struct {
	Execution string `json:"execution"`
	Step      string `json:"step"`
}

// WhoView is who may answer. Without actors and roles, everybody may.
type WhoView struct {
	Actors     []string `json:"actors"`
	Roles      []string `json:"roles"`
	NotStarter bool     `json:"notStarter"`
}

// AnswerView is an answer, without its value.
type AnswerView struct {
	By  string    `json:"by"`
	At  time.Time `json:"at"`
	Via *string   `json:"via"`
}
