// A matrix with its extents, as a class of a template.
template <typename E> class View {
    E* const data; int rows_, cols_;
    static constexpr int rank = 2;
public:
    __host__ __device__ View(E* d, int r, int c) : data(d), rows_(r), cols_(c) {}
    __device__ E& operator()(int i, int j) const { return data[i * cols_ + j]; }
    __device__ E& at(int i, int j) const;
    __device__ int rows() const { return rows_; }
    __device__ int cols() const { return cols_; }
};
template <typename E> __device__ E& View<E>::at(int i, int j) const { return (*this)(i, j); }
