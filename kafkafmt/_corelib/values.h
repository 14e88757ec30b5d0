/* Decode values of all formats into columns. */
#ifndef KAFKAFMT_VALUES_H
#define KAFKAFMT_VALUES_H

#include "avro_values.h"
#include "json_values.h"
#include "protobuf_values.h"

/* Decode the value between `p` and `end`. `readable` is the end of the readable memory. */
static inline int kv_decode_value(kv_state* s, const kv_program* program, const uint8_t* p, const uint8_t* end,
                                  const uint8_t* readable, const uint8_t* limits) {
    s->unknown = 0;
    if (program->format == KV_PROTOBUF) return kv_decode_protobuf(s, program, p, end, readable, limits);
    if (program->format == KV_JSON) return kv_decode_json(s, program, p, end, readable, limits);
    return kv_decode_avro(s, program, p, end, readable, limits);
}

#endif
