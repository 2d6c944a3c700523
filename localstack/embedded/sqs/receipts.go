package sqs

import (
	"errors"
	"regexp"
)

func (s *Server) deleteMessage(c *call, in *receiptRequest) (*emptyResult, error) {
	q, err := s.findQueue(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	return &emptyResult{}, s.deleteByReceipt(c, q, in.receiptEntry)
}

func (s *Server) deleteMessageBatch(c *call, in *receiptBatchRequest) (*batchResult[batchResultEntry], error) {
	return s.applyToBatch(c, in, s.deleteByReceipt)
}

// deleteByReceipt deletes the message of the latest receipt handle. A void handle
// deletes nothing and is not an error: the message will be delivered again or is
// already gone.
func (s *Server) deleteByReceipt(c *call, q *queue, r receiptEntry) error {
	m, err := q.findByReceipt(r.ReceiptHandle)
	if err != nil || m == nil {
		return err
	}
	if err := s.appendRecord(walRecord{Op: opDeleteMessages, Queue: q.name, Keys: []uint64{m.Key}}); err != nil {
		return err
	}
	q.remove(m)
	q.processDue(c.now) // a long poll may wait because too many were in flight
	return nil
}

func (s *Server) changeMessageVisibility(c *call, in *receiptRequest) (*emptyResult, error) {
	q, err := s.findQueue(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	return &emptyResult{}, s.changeVisibilityByReceipt(c, q, in.receiptEntry)
}

func (s *Server) changeMessageVisibilityBatch(c *call, in *receiptBatchRequest) (*batchResult[batchResultEntry], error) {
	return s.applyToBatch(c, in, s.changeVisibilityByReceipt)
}

// changeVisibilityByReceipt sets the visibility timeout of a delivery, from now on.
func (s *Server) changeVisibilityByReceipt(c *call, q *queue, r receiptEntry) error {
	// The SDK omits a timeout of zero from single requests.
	visibility, err := intInRange("VisibilityTimeout", r.VisibilityTimeout, 0, 0, maxVisibilitySeconds)
	if err != nil {
		return err
	}
	m, err := q.findByReceipt(r.ReceiptHandle)
	if err != nil {
		return err
	}
	if m == nil {
		return invalidParameterValue("Value %s for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available for visibility timeout change.", r.ReceiptHandle)
	}
	if m.state != stateInFlight {
		return messageNotInFlight()
	}
	if until := c.now.Add(seconds(visibility)); visibility > 0 && until.After(m.receivedAt.Add(seconds(maxVisibilitySeconds))) {
		return invalidParameterValue("Value %d for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message is beyond the limit [%d seconds].", visibility, maxVisibilitySeconds)
	}
	q.hide(m, c.now.Add(seconds(visibility)))
	q.processDue(c.now)
	return nil
}

// applyToBatch calls apply for each receipt of a batch.
func (s *Server) applyToBatch(c *call, in *receiptBatchRequest, apply func(*call, *queue, receiptEntry) error) (*batchResult[batchResultEntry], error) {
	q, err := s.findQueue(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(in.Entries))
	for i, e := range in.Entries {
		ids[i] = e.ID
	}
	if err := validateBatch(ids); err != nil {
		return nil, err
	}
	reply := &batchResult[batchResultEntry]{Successful: []batchResultEntry{}, Failed: []batchErrorEntry{}}
	for _, e := range in.Entries {
		if err := apply(c, q, e); err != nil {
			reply.Failed = append(reply.Failed, batchError(e.ID, err))
			continue
		}
		reply.Successful = append(reply.Successful, batchResultEntry{ID: e.ID})
	}
	return reply, nil
}

var entryIDPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

// validateBatch checks the ids of a batch.
func validateBatch(ids []string) error {
	if len(ids) == 0 {
		return emptyBatchRequest()
	}
	if len(ids) > 10 {
		return tooManyEntriesInBatch(len(ids))
	}
	seen := map[string]bool{}
	for _, id := range ids {
		if !entryIDPattern.MatchString(id) {
			return invalidBatchEntryID(id)
		}
		if seen[id] {
			return batchEntryIDsNotDistinct(id)
		}
		seen[id] = true
	}
	return nil
}

// batchError is the error of one entry of a batch.
func batchError(id string, err error) batchErrorEntry {
	var apiErr *apiError
	if !errors.As(err, &apiErr) {
		apiErr = internalError(err)
	}
	return batchErrorEntry{ID: id, Code: apiErr.Code, Message: apiErr.Message, SenderFault: apiErr.isSenderFault()}
}
