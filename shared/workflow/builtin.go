package workflow

import (
	"encoding/json"
	"slices"
	"strings"
)

// The blocks of http steps, by what may be done with their jobs. Nobody registers them: the engine
// knows them, and the stock worker serves them. A definition that was published with them needs
// them for ever, so they are never changed.
const (
	HTTPReadBlock = "lockstep/http_read:1.0.0" // pure: GET and HEAD
	HTTPSetBlock  = "lockstep/http_set:1.0.0"  // idempotent: PUT and DELETE, and what the author says is so
	HTTPSendBlock = "lockstep/http_send:1.0.0" // neither
)

// builtinPackage is the package of the blocks that the product has itself.
const builtinPackage = "lockstep"

const httpResultSchema = `{"type":"object","additionalProperties":false,"properties":{"status":{"type":"integer"},"headers":{"type":"object","additionalProperties":{"type":"string"}},"body":{}}}`

var builtinBlocks = []Block{
	{Package: builtinPackage, Name: "http_read", Version: "1.0.0", Pool: "default", Pure: true, ResultSchema: json.RawMessage(httpResultSchema)},
	{Package: builtinPackage, Name: "http_set", Version: "1.0.0", Pool: "default", Idempotent: true, ResultSchema: json.RawMessage(httpResultSchema)},
	{Package: builtinPackage, Name: "http_send", Version: "1.0.0", Pool: "default", ResultSchema: json.RawMessage(httpResultSchema)},
}

// BuiltinBlock is the block of the product that a reference means.
func BuiltinBlock(ref Ref) (Block, bool) {
	i := slices.IndexFunc(builtinBlocks, func(b Block) bool { return b.Ref().FullName() == ref.FullName() && ref.Matches(b.Version) })
	if i < 0 {
		return Block{}, false
	}
	return builtinBlocks[i], true
}

// BuiltinName reports whether a reference, of whatever version, has the name of a block of the product.
func BuiltinName(ref Ref) bool {
	return slices.ContainsFunc(builtinBlocks, func(b Block) bool { return b.Ref().FullName() == ref.FullName() })
}

// IsHTTPStep reports whether an exact reference is that of the block of http steps.
func IsHTTPStep(block string) bool {
	return strings.HasPrefix(block, builtinPackage+"/http_") && slices.ContainsFunc(builtinBlocks, func(b Block) bool { return b.Ref().String() == block })
}
