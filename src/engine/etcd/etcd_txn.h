/* etcd_txn.h - a transaction, built on the stack of whoever writes it: compares, what is done if they all hold, what is done
 * otherwise. */
#ifndef PAWL_ETCD_TXN_H
#define PAWL_ETCD_TXN_H

#include <assert.h>

#include "etcd.h"

enum txn_branch { TXN_THEN, TXN_ELSE, TXN_BRANCHES };
enum { TXN_COMPARES = 4, TXN_OPS = 5 };

struct etcd_op {
        Pb__RequestOp op;
        union {
                Pb__RangeRequest range;
                Pb__PutRequest put;
                Pb__DeleteRangeRequest delete_range;
        };
};

struct etcd_txn {
        Pb__TxnRequest request;
        Pb__Compare compares[TXN_COMPARES], *compare_list[TXN_COMPARES];
        struct etcd_op ops[TXN_BRANCHES][TXN_OPS];
        Pb__RequestOp *op_lists[TXN_BRANCHES][TXN_OPS];
};

static inline void txn_begin(struct etcd_txn *txn)
{
        pb__txn_request__init(&txn->request);
        txn->request.compare = txn->compare_list;
        txn->request.success = txn->op_lists[TXN_THEN];
        txn->request.failure = txn->op_lists[TXN_ELSE];
}

/* It is the key that was created then. */
static inline Pb__Compare *txn_if_created(struct etcd_txn *txn, ProtobufCBinaryData key, uint64_t revision)
{
        Pb__Compare *compare = &txn->compares[txn->request.n_compare];

        assert(txn->request.n_compare < TXN_COMPARES);
        pb__compare__init(compare);
        compare->target = PB__COMPARE_TARGET__IF_CREATE;
        compare->result = PB__COMPARE_RESULT__EQUAL;
        compare->with_case = PB__COMPARE__WITH_CREATE_REVISION;
        compare->create_revision = (int64_t)revision;
        compare->key = key;
        txn->compare_list[txn->request.n_compare++] = compare;
        return compare;
}

/* It is as it was written then; 0: it is not there. */
static inline void txn_if_written(struct etcd_txn *txn, ProtobufCBinaryData key, int64_t revision)
{
        Pb__Compare *compare = txn_if_created(txn, key, 0);

        compare->target = PB__COMPARE_TARGET__IF_MOD;
        compare->with_case = PB__COMPARE__WITH_MOD_REVISION;
        compare->mod_revision = revision;
}

/* It was not written after that. */
static inline void txn_if_written_until(struct etcd_txn *txn, ProtobufCBinaryData key, int64_t revision)
{
        txn_if_written(txn, key, revision + 1);
        txn->compares[txn->request.n_compare - 1].result = PB__COMPARE_RESULT__LESS;
}

/* The key was never created, or is deleted; of a prefix (end given): there is no such key. */
static inline void txn_if_absent(struct etcd_txn *txn, ProtobufCBinaryData key, const ProtobufCBinaryData *end)
{
        Pb__Compare *compare = txn_if_created(txn, key, 0);

        if (end)
                compare->range_end = *end;
}

static inline struct etcd_op *txn_op(struct etcd_txn *txn, enum txn_branch branch, Pb__RequestOp__RequestCase what)
{
        size_t *count = branch == TXN_THEN ? &txn->request.n_success : &txn->request.n_failure;
        struct etcd_op *op = &txn->ops[branch][*count];

        assert(*count < TXN_OPS);
        pb__request_op__init(&op->op);
        op->op.request_case = what;
        txn->op_lists[branch][(*count)++] = &op->op;
        return op;
}

static inline Pb__PutRequest *txn_put(struct etcd_txn *txn, enum txn_branch branch, ProtobufCBinaryData key)
{
        struct etcd_op *op = txn_op(txn, branch, PB__REQUEST_OP__REQUEST_PUT);

        pb__put_request__init(&op->put);
        op->put.key = key;
        op->op.put = &op->put;
        return &op->put;
}

static inline Pb__RangeRequest *txn_range(struct etcd_txn *txn, enum txn_branch branch, ProtobufCBinaryData key)
{
        struct etcd_op *op = txn_op(txn, branch, PB__REQUEST_OP__REQUEST_RANGE);

        pb__range_request__init(&op->range);
        op->range.key = key;
        op->op.range = &op->range;
        return &op->range;
}

static inline void txn_delete(struct etcd_txn *txn, enum txn_branch branch, ProtobufCBinaryData key)
{
        struct etcd_op *op = txn_op(txn, branch, PB__REQUEST_OP__REQUEST_DELETE_RANGE);

        pb__delete_range_request__init(&op->delete_range);
        op->delete_range.key = key;
        op->op.delete_range = &op->delete_range;
}

/* The answer to the op with that number; NULL: it is not there. */
static inline const Pb__RangeResponse *txn_range_told(const Pb__TxnResponse *reply, size_t number)
{
        return number < reply->n_responses && reply->responses[number]->response_case == PB__RESPONSE_OP__RESPONSE_RANGE
                       ? reply->responses[number]->range
                       : NULL;
}

static inline const Pb__DeleteRangeResponse *txn_delete_told(const Pb__TxnResponse *reply, size_t number)
{
        return number < reply->n_responses &&
                               reply->responses[number]->response_case == PB__RESPONSE_OP__RESPONSE_DELETE_RANGE
                       ? reply->responses[number]->delete_range
                       : NULL;
}

#endif
