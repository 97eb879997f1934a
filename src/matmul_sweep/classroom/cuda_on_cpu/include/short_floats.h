// What cuda_fp16.h and cuda_bf16.h have in common: arithmetic by name, of SHORT_FLOAT and of pairs.
// There is no guard: each of the two includes it once.

struct alignas(4) SHORT_PAIR { SHORT_FLOAT x, y; };

inline SHORT_FLOAT __hadd(SHORT_FLOAT a, SHORT_FLOAT b) { return float(a) + float(b); }
inline SHORT_FLOAT __hsub(SHORT_FLOAT a, SHORT_FLOAT b) { return float(a) - float(b); }
inline SHORT_FLOAT __hmul(SHORT_FLOAT a, SHORT_FLOAT b) { return float(a) * float(b); }
inline SHORT_FLOAT __hdiv(SHORT_FLOAT a, SHORT_FLOAT b) { return float(a) / float(b); }
inline SHORT_FLOAT __hneg(SHORT_FLOAT a) { return -float(a); }
inline SHORT_FLOAT __habs(SHORT_FLOAT a) { return float(a) < 0 ? -float(a) : float(a); }
inline bool __heq(SHORT_FLOAT a, SHORT_FLOAT b) { return float(a) == float(b); }
inline bool __hne(SHORT_FLOAT a, SHORT_FLOAT b) { return float(a) != float(b); }
inline bool __hlt(SHORT_FLOAT a, SHORT_FLOAT b) { return float(a) < float(b); }
inline bool __hle(SHORT_FLOAT a, SHORT_FLOAT b) { return float(a) <= float(b); }
inline bool __hgt(SHORT_FLOAT a, SHORT_FLOAT b) { return float(a) > float(b); }
inline bool __hge(SHORT_FLOAT a, SHORT_FLOAT b) { return float(a) >= float(b); }
inline SHORT_FLOAT __hmax(SHORT_FLOAT a, SHORT_FLOAT b) { return float(a) < float(b) ? b : a; }
inline SHORT_FLOAT __hmin(SHORT_FLOAT a, SHORT_FLOAT b) { return float(b) < float(a) ? b : a; }
// The product is exact in a double; so is the sum, unless they are very far apart.
inline SHORT_FLOAT __hfma(SHORT_FLOAT a, SHORT_FLOAT b, SHORT_FLOAT c)
{
    return float(double(float(a)) * float(b) + float(c));
}

inline SHORT_PAIR __hadd2(SHORT_PAIR a, SHORT_PAIR b) { return {__hadd(a.x, b.x), __hadd(a.y, b.y)}; }
inline SHORT_PAIR __hmul2(SHORT_PAIR a, SHORT_PAIR b) { return {__hmul(a.x, b.x), __hmul(a.y, b.y)}; }
inline SHORT_PAIR __hfma2(SHORT_PAIR a, SHORT_PAIR b, SHORT_PAIR c)
{
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
inline SHORT_PAIR __hsub2(SHORT_PAIR a, SHORT_PAIR b) { return {__hsub(a.x, b.x), __hsub(a.y, b.y)}; }
inline SHORT_PAIR __h2div(SHORT_PAIR a, SHORT_PAIR b) { return {__hdiv(a.x, b.x), __hdiv(a.y, b.y)}; }
inline SHORT_PAIR __hneg2(SHORT_PAIR a) { return {__hneg(a.x), __hneg(a.y)}; }
inline SHORT_PAIR __hmax2(SHORT_PAIR a, SHORT_PAIR b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }
inline SHORT_PAIR __hmin2(SHORT_PAIR a, SHORT_PAIR b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }
inline SHORT_PAIR operator+(SHORT_PAIR a, SHORT_PAIR b) { return __hadd2(a, b); }
inline SHORT_PAIR operator-(SHORT_PAIR a, SHORT_PAIR b) { return __hsub2(a, b); }
inline SHORT_PAIR operator*(SHORT_PAIR a, SHORT_PAIR b) { return __hmul2(a, b); }
inline SHORT_PAIR operator/(SHORT_PAIR a, SHORT_PAIR b) { return __h2div(a, b); }
inline SHORT_PAIR operator-(SHORT_PAIR a) { return __hneg2(a); }
inline SHORT_PAIR& operator+=(SHORT_PAIR& a, SHORT_PAIR b) { return a = a + b; }
inline SHORT_PAIR& operator-=(SHORT_PAIR& a, SHORT_PAIR b) { return a = a - b; }
inline SHORT_PAIR& operator*=(SHORT_PAIR& a, SHORT_PAIR b) { return a = a * b; }
inline SHORT_FLOAT __low2half(SHORT_PAIR pair) { return pair.x; }
inline SHORT_FLOAT __high2half(SHORT_PAIR pair) { return pair.y; }
inline float __low2float(SHORT_PAIR pair) { return pair.x; }
inline float __high2float(SHORT_PAIR pair) { return pair.y; }

#undef SHORT_FLOAT
#undef SHORT_PAIR
