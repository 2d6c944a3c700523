package api

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// listDigestSize is how much of a page token says which list it belongs to.
const listDigestSize = 9

// parsePage reads limit and pageToken. A token only continues the list, with the
// same filters and for the same tenant, that it was answered with: a token of
// another list would silently show the wrong part.
func (a *routes) parsePage(r *http.Request, limit *int, token *string) (workflow.Page, error) {
	p := workflow.Page{Limit: workflow.DefaultPageSize}
	if limit != nil {
		p.Limit = *limit
	}
	if token == nil {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(*token)
	if err != nil || len(raw) <= listDigestSize || string(raw[:listDigestSize]) != a.listDigest(r, string(raw[listDigestSize:])) {
		return p, workflow.Invalid("the page token is not valid", []workflow.Issue{{
			Path: "pageToken", Code: "page_token", Message: "want the nextPageToken of the page before, of the same list with the same filters",
		}})
	}
	p.Token = string(raw[listDigestSize:])
	return p, nil
}

// nextPageToken is the token of the page after, null after the last.
func (a *routes) nextPageToken(r *http.Request, token string) *string {
	if token == "" {
		return nil
	}
	t := base64.RawURLEncoding.EncodeToString([]byte(a.listDigest(r, token) + token))
	return &t
}

// listDigest depends on the list and on the token itself, so that a damaged token is
// noticed too.
func (a *routes) listDigest(r *http.Request, token string) string {
	q := r.URL.Query()
	q.Del("limit")
	q.Del("pageToken")
	sum := sha256.Sum256([]byte(a.caller(r).Tenant + "\x00" + r.URL.Path + "\x00" + q.Encode() + "\x00" + token))
	return string(sum[:listDigestSize])
}
